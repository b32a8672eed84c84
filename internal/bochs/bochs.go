// Package bochs runs generated x86-64 code on the Bochs emulator, so that AVX-512 kernels can be
// tested on machines without AVX-512. There is no guest operating system: a small ROM enters long
// mode, runs a list of calls and prints the memory they changed. Memory outside the given buffers
// is not mapped, so that accesses out of bounds, as well as undefined instructions and use of the
// stack, are reported as faults.
//
// The emulated CPU is a Tiger Lake: AVX512 F, BW, CD, DQ, VL, IFMA, VBMI, VBMI2, VNNI, BITALG and
// GFNI; no BF16, FP16, AVX-VNNI or AMX.
package bochs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Features are the /proc/cpuinfo names of what the emulated CPU offers to kernels.
var Features = []string{"avx", "avx2", "avx512_bitalg", "avx512_vbmi2", "avx512_vnni", "avx512_vpopcntdq",
	"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512ifma", "avx512vbmi", "avx512vl", "bmi1", "bmi2",
	"f16c", "fma", "gfni", "sse", "sse2", "sse4_1", "sse4_2", "ssse3"}

// config has no devices that need the host: sound and PCI are off, and the display is one of
// displays.
const config = `config_interface: textconfig
display_library: %s
megs: %d
cpu: model=tigerlake, count=1, reset_on_triple_fault=0, ignore_bad_msrs=0
romimage: file=%s, address=0xffff0000
optramimage1: file=%s, address=%#x
boot: disk
pci: enabled=0
plugin_ctrl: unmapped=1, biosdev=0, speaker=0, extfpuirq=0, parallel=0, serial=0, gameport=0
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
speaker: enabled=0
clock: sync=none
panic: action=fatal
error: action=report
info: action=ignore
port_e9_hack: enabled=1
log: %s
`

// displays are tried in order: distributions leave out the first, and the second waits for nobody.
var displays = []string{"nogui", `rfb, options="timeout=0"`}

var errDisplay = errors.New("display library is not available")

// display is the index of the first display that works, found by the first run.
var display struct {
	sync.Mutex
	n int
}

// Available reports whether Bochs is installed, and if not, why a test must skip.
func Available() (reason string, ok bool) {
	if _, err := exec.LookPath("bochs"); err != nil {
		return "bochs is not installed", false
	}
	if out, err := exec.Command("bochs", "--help", "cpu").CombinedOutput(); !bytes.Contains(out, []byte("tigerlake")) {
		return fmt.Sprintf("bochs does not know the CPU model tigerlake (%v)", err), false
	}
	return "", true
}

// record is a call record as the guest left it.
type record [recordSize / 8]uint64

// result is the output of a run: the records and the dirty pages by index.
type result struct {
	records []record
	dirty   map[int][]byte
}

// start runs Bochs on a RAM image until its output is complete.
func start(ctx context.Context, ram []byte, calls int) (*result, error) {
	display.Lock()
	n := display.n
	display.Unlock()
	for ; n < len(displays); n++ {
		r, err := startWith(ctx, displays[n], ram, calls)
		if !errors.Is(err, errDisplay) {
			display.Lock()
			display.n = n
			display.Unlock()
			return r, err
		}
	}
	return nil, fmt.Errorf("bochs: %w: tried %q", errDisplay, displays)
}

func startWith(ctx context.Context, display string, ram []byte, calls int) (res *result, err error) {
	dir, err := os.MkdirTemp("", "bochs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	megs := (sysBase+len(ram))>>20 + 33
	text := fmt.Sprintf(config, display, megs, at("rom"), at("ram"), sysBase, at("log"))
	for name, data := range map[string][]byte{"rom": rom(), "ram": ram, "rc": []byte(text)} {
		if err := os.WriteFile(at(name), data, 0o600); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "bochs", "-q", "-f", at("rc"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a halted guest runs for ever
	// A Bochs built with its debugger waits for a command, another one does not read.
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var console strings.Builder
	cmd.Stderr = &console
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bochs: %w", err)
	}
	_, _ = io.WriteString(in, "c\n")
	var text2 tail
	res, err = parse(io.TeeReader(out, &text2), calls)
	cancel()
	_ = cmd.Wait() // killed: the guest halts for ever
	if err == nil {
		return res, nil
	}
	said := console.String() + text2.String()
	if strings.Contains(said, "display library") && strings.Contains(said, "not available") {
		return nil, errDisplay
	}
	log, _ := os.ReadFile(at("log"))
	return nil, fmt.Errorf("bochs: no complete output (%w): %.1000s\n%s", errors.Join(err, context.Cause(ctx)), said, log[max(0, len(log)-1000):])
}

// tail keeps the last bytes written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 4096 {
		t.b = append([]byte(nil), t.b[len(t.b)-2048:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

// parse reads the guest's output, which follows whatever Bochs itself printed.
func parse(r io.Reader, calls int) (*result, error) {
	br := bufio.NewReader(r)
	for m := 0; m < len(magic); {
		c, err := br.ReadByte()
		switch {
		case err != nil:
			return nil, err
		case c == magic[m]:
			m++
		case c == magic[0]:
			m = 1
		default:
			m = 0
		}
	}
	res := &result{records: make([]record, calls), dirty: map[int][]byte{}}
	if err := binary.Read(br, binary.LittleEndian, res.records); err != nil {
		return nil, err
	}
	for {
		var i int64
		if err := binary.Read(br, binary.LittleEndian, &i); err != nil || i < 0 {
			return res, err
		}
		p := make([]byte, page)
		if _, err := io.ReadFull(br, p); err != nil {
			return nil, err
		}
		res.dirty[int(i)] = p
	}
}
