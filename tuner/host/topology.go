package host

import (
	"fmt"
	"slices"
	"strings"
)

const sysCPU = "sys/devices/system/cpu"

// topology lists the online CPUs. Without sysfs every CPU of /proc/cpuinfo counts as a core.
func (t tree) topology(count int) (Topology, error) {
	online := cpuList(t.text(sysCPU + "/online"))
	if len(online) == 0 {
		online = t.numbered(sysCPU, "cpu")
	}
	if len(online) == 0 {
		for id := range count {
			online = append(online, id)
		}
	}
	if len(online) == 0 {
		return Topology{}, fmt.Errorf("host profile: neither /sys/devices/system/cpu nor /proc/cpuinfo lists a CPU")
	}
	node := t.nodes()
	class := t.classes(online)
	var top Topology
	cores, packages, nodes, classes := map[[2]int]bool{}, map[int]bool{}, map[int]bool{}, map[string]bool{}
	for _, id := range online {
		dir := fmt.Sprintf("%s/cpu%d/topology/", sysCPU, id)
		l := Logical{ID: id, Core: id, Node: node[id], Class: class[id]}
		if t.exists(dir + "core_id") {
			l.Core, l.Package = number(t.text(dir+"core_id")), max(0, number(t.text(dir+"physical_package_id")))
			// A core id may repeat in another cluster of a package; the first sibling never does.
			if sib := cpuList(firstOf(t.text(dir+"core_cpus_list"), t.text(dir+"thread_siblings_list"))); len(sib) > 0 {
				l.Core = sib[0]
			}
		}
		top.CPUs = append(top.CPUs, l)
		cores[[2]int{l.Package, l.Core}], packages[l.Package], nodes[l.Node], classes[l.Class] = true, true, true, true
	}
	top.Packages, top.Cores, top.Threads, top.Nodes = len(packages), len(cores), len(online), len(nodes)
	for _, c := range []string{"p", "e"} {
		if classes[c] {
			top.Classes = append(top.Classes, c)
		}
	}
	return top, nil
}

func (t tree) nodes() map[int]int {
	out := map[int]int{}
	for _, n := range t.numbered("sys/devices/system/node", "node") {
		for _, id := range cpuList(t.text(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n))) {
			out[id] = n
		}
	}
	return out
}

// classes tells fast cores from efficient ones: by the kernel's lists for hybrid x86, else by
// capacity (arm64), where a core under 80% of the largest is an "e".
func (t tree) classes(online []int) map[int]string {
	out := make(map[int]string, len(online))
	atom := cpuList(t.text("sys/devices/cpu_atom/cpus"))
	capacity, top := map[int]int{}, 0
	for _, id := range online {
		capacity[id] = number(t.text(fmt.Sprintf("%s/cpu%d/cpu_capacity", sysCPU, id)))
		top = max(top, capacity[id])
	}
	for _, id := range online {
		out[id] = "p"
		if slices.Contains(atom, id) || capacity[id]*10 < top*8 {
			out[id] = "e"
		}
	}
	return out
}

// faster reports whether class a is the faster one.
func faster(a, b string) bool { return a == "p" && b == "e" }

// caches are those of the first of the given CPUs.
func (t tree) caches(cpus []int) []Cache {
	if len(cpus) == 0 {
		return nil
	}
	dir := fmt.Sprintf("%s/cpu%d/cache", sysCPU, cpus[0])
	var out []Cache
	for _, i := range t.numbered(dir, "index") {
		d := fmt.Sprintf("%s/index%d/", dir, i)
		c := Cache{Level: number(t.text(d + "level")), Type: strings.ToLower(t.text(d + "type")), Bytes: bytesOf(t.text(d + "size")),
			Line: number(t.text(d + "coherency_line_size")), Shared: len(cpuList(t.text(d + "shared_cpu_list")))}
		if c.Level > 0 {
			out = append(out, c)
		}
	}
	return out
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
