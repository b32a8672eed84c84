package host

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

func (t tree) memory() Memory {
	var m Memory
	for line := range strings.Lines(t.text("proc/meminfo")) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch n := int64(number(f[1])) << 10; f[0] {
		case "MemTotal:":
			m.Total = n
		case "MemAvailable:":
			m.Available = n
		case "SwapTotal:":
			m.SwapTotal = n
		}
	}
	return m
}

func (t tree) settings(info cpuInfo, allowed []int) Settings {
	s := Settings{
		Kernel:      t.text("proc/sys/kernel/osrelease"),
		Microcode:   info.microcode,
		Mitigations: map[string]string{},
		THP:         chosen(t.text("sys/kernel/mm/transparent_hugepage/enabled")),
		THPDefrag:   chosen(t.text("sys/kernel/mm/transparent_hugepage/defrag")),
		NUMABalance: t.text("proc/sys/kernel/numa_balancing"),
		SMT:         t.text(sysCPU + "/smt/control"),
		Boost:       t.text(sysCPU + "/cpufreq/boost"),
		Hypervisor:  t.hypervisor(info.flags),
	}
	if turbo := t.text(sysCPU + "/intel_pstate/no_turbo"); turbo != "" {
		s.Boost = map[string]string{"0": "1", "1": "0"}[turbo]
	}
	const dir = sysCPU + "/vulnerabilities"
	if entries, err := fs.ReadDir(t.FS, dir); err == nil {
		for _, e := range entries {
			if v := t.text(dir + "/" + e.Name()); v != "" && v != "Not affected" {
				s.Mitigations[e.Name()] = v
			}
		}
	}
	for _, id := range allowed {
		g := t.text(fmt.Sprintf("%s/cpu%d/cpufreq/scaling_governor", sysCPU, id))
		if s.Governor == "" {
			s.Governor = g
		} else if g != s.Governor {
			s.Governor = "mixed"
			break
		}
	}
	return s
}

// hypervisor names what this virtual machine runs on: the type or the maker, "yes" if only the CPU
// tells.
func (t tree) hypervisor(flags []string) string {
	if h := t.text("sys/hypervisor/type"); h != "" {
		return h
	}
	if !slices.Contains(flags, "hypervisor") {
		return ""
	}
	if v := t.text("sys/class/dmi/id/sys_vendor"); v != "" {
		return v
	}
	return "yes"
}

func (t tree) power(cpus []Logical) Power {
	var p Power
	const supplies = "sys/class/power_supply"
	if entries, err := fs.ReadDir(t.FS, supplies); err == nil {
		for _, e := range entries {
			dir := supplies + "/" + e.Name()
			if t.text(dir+"/type") == "Battery" && t.text(dir+"/scope") != "Device" && t.text(dir+"/status") == "Discharging" {
				p.OnBattery = true
			}
		}
	}
	for _, z := range t.numbered("sys/class/thermal", "thermal_zone") {
		p.MaxTempC = max(p.MaxTempC, float64(number(t.text(fmt.Sprintf("sys/class/thermal/thermal_zone%d/temp", z))))/1000)
	}
	for _, c := range cpus {
		p.Throttles += int64(number(t.text(fmt.Sprintf("%s/cpu%d/thermal_throttle/core_throttle_count", sysCPU, c.ID))))
	}
	return p
}

// ReadPower reads the state of supplies and of thermal throttling alone, for repeated checks.
func ReadPower(fsys fs.FS, cpus []Logical) Power { return tree{fsys}.power(cpus) }
