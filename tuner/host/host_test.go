package host

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tilewright/tilewright/kernel"
)

// fixture loads a tree of files from testdata: "-- path --" lines, each followed by the content.
func fixture(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{}
	var file *fstest.MapFile
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			file = &fstest.MapFile{}
			m[strings.TrimSuffix(name, " --\n")] = file
			continue
		}
		file.Data = append(file.Data, line...)
	}
	return m
}

func TestRecordedHosts(t *testing.T) {
	for _, c := range []struct {
		name, arch     string
		cores, threads int
		cpus           []int
		workers        int
		quota          float64
		memory         int64
		has, lacks     []string
		governor, thp  string
		nodes          int
		classes        []string
		battery        bool
		virtual        string
		cgroup         string
	}{
		{name: "smt-v2-quota", arch: "amd64", cores: 4, threads: 8, cpus: []int{0, 1, 2, 3}, workers: 2, quota: 2.5, memory: 4 << 30,
			has: []string{"avx512f", "avx512_vnni"}, lacks: []string{"amx_int8"}, governor: "performance", thp: "madvise", nodes: 2,
			classes: []string{"p"}, virtual: "", cgroup: "v2"},
		{name: "hybrid-v1", arch: "amd64", cores: 3, threads: 4, cpus: []int{0}, workers: 1, has: []string{"avx2", "avx_vnni"},
			lacks: []string{"avx512f"}, governor: "mixed", thp: "always", nodes: 1, classes: []string{"p", "e"}, battery: true,
			virtual: "QEMU", cgroup: "v1"},
		{name: "arm", arch: "arm64", cores: 4, threads: 4, cpus: []int{2, 3}, workers: 2, has: []string{"asimddp", "i8mm"},
			lacks: []string{"sve"}, nodes: 1, classes: []string{"p", "e"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Read(t.Context(), Recorded(fixture(t, c.name), c.arch))
			if err != nil {
				t.Fatal(err)
			}
			type facts struct {
				Cores, Threads, Workers, Nodes int
				CPUs                           []int
				Quota                          float64
				Memory                         int64
				Governor, THP, Hypervisor, Cg  string
				Classes                        []string
				Battery                        bool
			}
			got := facts{p.Topology.Cores, p.Topology.Threads, p.Threads(), p.Topology.Nodes, p.CPUs(), p.Limits.Quota, p.Limits.MemoryBytes,
				p.Settings.Governor, p.Settings.THP, p.Settings.Hypervisor, p.Limits.Cgroup, p.Topology.Classes, p.Power.OnBattery}
			want := facts{c.cores, c.threads, c.workers, c.nodes, c.cpus, c.quota, c.memory, c.governor, c.thp, c.virtual, c.cgroup, c.classes, c.battery}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if !p.Features().Has(c.has...) || len(p.Features().Missing(c.lacks)) != len(c.lacks) {
				t.Errorf("features %v", p.Usable)
			}
			checkRoundTrip(t, p)
		})
	}
}

func checkRoundTrip(t *testing.T, p *Profile) {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	q, err := Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if q.Digest() != p.Digest() || kernel.SoftDigest(*q) != kernel.SoftDigest(*p) || !slices.Equal(q.CPUs(), p.CPUs()) {
		t.Errorf("a profile changed in JSON:\n%s", cmp.Diff(p, q))
	}
}

func TestThisHost(t *testing.T) {
	p, err := Read(t.Context(), Live())
	if err != nil {
		t.Fatal(err)
	}
	if p.Arch != runtime.GOARCH || !p.Probed || p.Threads() < 1 || len(p.Limits.Allowed) == 0 || p.Settings.Kernel == "" {
		t.Errorf("%+v", p)
	}
	if len(p.Refused) > 0 {
		t.Logf("advertised but not usable: %v", p.Refused)
	}
	checkRoundTrip(t, p)
}

// A feature that this CPU lacks must be found out by executing it, and must not hide those behind it.
func TestProbeSurvivesIllegalInstructions(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("probes execute on amd64 only")
	}
	var all []string
	for _, f := range isaAMD64 {
		all = append(all, f.name)
	}
	ok, err := execute(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Fields(string(mustRead(t, "/proc/cpuinfo")))
	for _, n := range all {
		listed, ran := slices.Contains(have, n), slices.Contains(ok, n)
		switch {
		case listed && !ran && !strings.HasPrefix(n, "amx"): // tiles need the system's permission too
			t.Errorf("%s: in /proc/cpuinfo, but not executed", n)
		case ran && !listed:
			t.Logf("%s: executed, but hidden by a hypervisor or the kernel", n)
		}
		if Executes(t.Context(), n) != ran {
			t.Errorf("%s: executed %t, by itself %t", n, ran, !ran)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	return b
}

func TestProbeStopsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := execute(ctx, []string{"avx"}); err == nil {
		t.Error("probe ran without a context")
	}
}

func TestUnusableFeaturesAreNotUsed(t *testing.T) {
	s := Recorded(fixture(t, "smt-v2-quota"), "amd64")
	s.Execute = func(_ context.Context, names []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "avx512_vnni" }), nil
	}
	s.Advertised = func(n string) bool { return n != "avx512bw" }
	p, err := Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if p.Features().Has("avx512_vnni") || p.Features().Has("avx512bw") || !slices.Equal(p.Refused, []string{"avx512_vnni"}) {
		t.Errorf("usable %v, refused %v", p.Usable, p.Refused)
	}
}

func TestKeyClasses(t *testing.T) {
	base, err := Read(t.Context(), Recorded(fixture(t, "smt-v2-quota"), "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what       string
		edit       func(*Profile)
		hard, soft bool
	}{
		{"feature", func(p *Profile) { p.Usable = p.Usable[1:] }, true, false},
		{"model", func(p *Profile) { p.CPU.Model++ }, true, false},
		{"microcode", func(p *Profile) { p.Settings.Microcode = "9" }, false, true},
		{"kernel", func(p *Profile) { p.Settings.Kernel = "9" }, false, true},
		{"thp", func(p *Profile) { p.Settings.THP = "never" }, false, true},
		{"governor", func(p *Profile) { p.Settings.Governor = "powersave" }, false, true},
		{"mitigation", func(p *Profile) { p.Settings.Mitigations = map[string]string{"x": "y"} }, false, true},
		{"core class", func(p *Profile) { p.Topology.Classes = []string{"p", "e"} }, false, true},
		{"hostname", func(p *Profile) { p.Hostname = "other" }, false, false},
		{"name", func(p *Profile) { p.CPU.Name = "other" }, false, false},
		{"free memory", func(p *Profile) { p.Memory.Available = 1 }, false, false},
		{"temperature", func(p *Profile) { p.Power.MaxTempC = 99 }, false, false},
	} {
		q := *base
		c.edit(&q)
		if got := q.Digest() != base.Digest(); got != c.hard {
			t.Errorf("%s: hard digest changed: %t", c.what, got)
		}
		if got := kernel.SoftDigest(q) != kernel.SoftDigest(*base); got != c.soft {
			t.Errorf("%s: soft digest changed: %t", c.what, got)
		}
	}
}

func TestEmptyTree(t *testing.T) {
	if _, err := Read(t.Context(), Recorded(fstest.MapFS{}, "amd64")); err == nil {
		t.Error("a host without CPUs was accepted")
	}
	// A container without /sys.
	p, err := Read(t.Context(), Recorded(fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor: 0\nflags: avx2\nprocessor: 1\n")}}, "amd64"))
	if err != nil || p.Threads() != 2 || !p.Features().Has("avx2") {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestThrottled(t *testing.T) {
	n, ns, ok := Throttled(fixture(t, "smt-v2-quota"))
	if !ok || n != 7 || ns != 123_000 {
		t.Errorf("v2: %d periods, %d ns, %t", n, ns, ok)
	}
	n, ns, ok = Throttled(fixture(t, "hybrid-v1"))
	if !ok || n != 3 || ns != 4567 {
		t.Errorf("v1: %d periods, %d ns, %t", n, ns, ok)
	}
	if _, _, ok := Throttled(fstest.MapFS{}); ok {
		t.Error("no cgroup, yet throttling is known")
	}
}

func TestCPUList(t *testing.T) {
	for in, want := range map[string][]int{"0-3,8": {0, 1, 2, 3, 8}, "": nil, "1": {1}, "3-1": nil, "x,2": {2}, "0-99999999": nil, "1,1": {1}} {
		if got := cpuList(in); !reflect.DeepEqual(got, want) {
			t.Errorf("cpuList(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{"", "{}", `{"schema":9}`, `{"schema":1,"arch":"amd64"}`, "[]"} {
		if _, err := Parse(strings.NewReader(in)); err == nil {
			t.Errorf("accepted %q", in)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("processor : 0\nflags : avx2\n", "0-1", "12:cpu:/x\n0::/y", "max 100000")
	f.Fuzz(func(t *testing.T, cpuinfo, online, cgroup, cpuMax string) {
		m := fstest.MapFS{}
		for name, data := range map[string]string{"proc/cpuinfo": cpuinfo, sysCPU + "/online": online, "proc/self/cgroup": cgroup,
			"sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/cpu.max": cpuMax} {
			m[name] = &fstest.MapFile{Data: []byte(data)}
		}
		p, err := Read(t.Context(), Recorded(m, "amd64"))
		if err == nil && (p.Threads() < 1 || len(p.CPUs()) == 0) {
			t.Errorf("%+v", p)
		}
	})
}

func TestProbeProcessPrintsNothingElse(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{envProbe + "=popcnt"}
	out, err := cmd.Output()
	if want := "popcnt\n"; runtime.GOARCH == "amd64" && (err != nil || string(out) != want) {
		t.Errorf("%q, %v", out, err)
	}
}

// What backends are told of caches is a core's share.
func TestBackendFeatures(t *testing.T) {
	p, err := Read(t.Context(), Recorded(fixture(t, "smt-v2-quota"), "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	f := p.BackendFeatures(p.Features())
	if f.Cache(1) != 48<<10 || f.Cache(2) != 2<<20 || f.Cache(3) != 107520<<10/2 || !f.Has("avx512f") || p.Features().Cache(2) != 0 {
		t.Errorf("%v", f)
	}
	p.Topology.Caches[2].Shared = 8 // of four cores of two threads
	if f := p.BackendFeatures(nil); f.Cache(2) != 512<<10 {
		t.Errorf("shared by four: %v", f)
	}
	p.Topology.Caches = nil
	if f := p.BackendFeatures(p.Features()); len(f) != len(p.Features()) {
		t.Errorf("no caches known: %v", f)
	}
}
