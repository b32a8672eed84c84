package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// feature is an instruction-set feature in the kernel's spelling.
type feature struct {
	name string
	id   cpuid.FeatureID
	code []byte // one instruction of it, RDI pointing to 4 KiB; nil on arm64
}

// isaARM64 are believed from HWCAP, which /proc/cpuinfo prints: the kernel masks what it cannot run.
var isaARM64 = []feature{
	{name: "fp"}, {name: "asimd"}, {name: "fphp"}, {name: "asimdhp"}, {name: "asimdrdm"}, {name: "asimddp"},
	{name: "asimdfhm"}, {name: "i8mm"}, {name: "bf16"}, {name: "sve"}, {name: "sve2"}, {name: "svei8mm"}, {name: "atomics"},
}

// envProbe makes this program execute the named features and exit. It is read in init, so that any
// program that links this package can probe by re-executing itself, test binaries included.
const envProbe = "TILEWRIGHT_PROBE_ISA"

func init() {
	if names := os.Getenv(envProbe); names != "" {
		probe(strings.Split(names, ","), os.Stdout)
		os.Exit(0)
	}
}

// execute runs one instruction of each feature in a disposable process and returns those that came
// back. Where the process dies, the feature is refused and another process goes on behind it.
func execute(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var ok []string
	for len(names) > 0 {
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = []string{envProbe + "=" + strings.Join(names, ","), "GOTRACEBACK=none", "GOMAXPROCS=1"}
		out, err := cmd.Output()
		done := strings.Fields(string(out))
		if len(done) > len(names) || !slices.Equal(done, names[:len(done)]) {
			return nil, fmt.Errorf("this program answered %.80q when it was asked to probe itself", out)
		}
		ok = append(ok, done...)
		if len(done) == len(names) {
			return ok, nil
		}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return nil, fmt.Errorf("probe process: %w", errors.Join(err, ctx.Err()))
		}
		names = names[len(done)+1:]
	}
	return ok, nil
}

// Executes reports whether this machine runs an instruction of a feature, whether or not the CPU advertises
// it: hypervisors hide some that work. Only amd64 is asked; elsewhere what is not advertised does not run.
func Executes(ctx context.Context, name string) bool {
	if !slices.ContainsFunc(isaAMD64, func(f feature) bool { return f.name == name }) {
		return false
	}
	ok, err := execute(ctx, []string{name})
	return err == nil && len(ok) == 1
}

// FeatureNames are the features of an architecture that profiles can hold.
func FeatureNames(arch string) []string {
	list := isaAMD64
	if arch == "arm64" {
		list = isaARM64
	}
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.name
	}
	return names
}

// advertised asks the CPU whether it has a feature that the kernel lists.
func advertised(name string) bool {
	for _, f := range isaAMD64 {
		if f.name == name {
			return f.id == cpuid.UNKNOWN || cpuid.CPU.Supports(f.id)
		}
	}
	return true
}
