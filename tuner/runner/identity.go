package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/tilewright/tilewright/tuner/wire"
)

// whoAmI fills in the parts of a receipt that name this process.
func whoAmI() (wire.Receipt, error) {
	exe, err := exeDigest()
	if err != nil {
		return wire.Receipt{}, err
	}
	start, err := startTime(os.Getpid())
	return wire.Receipt{PID: os.Getpid(), Start: start, Exe: exe}, err
}

// exeDigest is the sha256, in hex, of the running executable.
var exeDigest = sync.OnceValues(func() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
})

// startTime is when a process started, in clock ticks after boot: with the pid it names a process.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return strconv.ParseUint(f[19], 10, 64)
}
