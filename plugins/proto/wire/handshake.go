package wire

import (
	"github.com/hashicorp/go-plugin"
	"github.com/tilewright/tilewright/kernel"
)

// ProtocolVersion is the major version of the wire; v1 changes only by addition.
const ProtocolVersion = 1

// Dispensed is the name under which a backend is dispensed.
const Dispensed = "backend"

// Handshake is a courtesy to people who start a backend by hand, not a security measure.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "TILEWRIGHT_PLUGIN_COOKIE",
	MagicCookieValue: "tilewright-backend",
}

// Environment that a host gives to a backend's process.
const (
	EnvServe    = "TILEWRIGHT_SERVE_BACKEND" // name of the backend to serve
	EnvLifeline = "TILEWRIGHT_LIFELINE_FD"   // descriptor whose end of file means that the host is gone
	EnvReattach = "TILEWRIGHT_REATTACH"      // for hosts: JSON list of Reattach, printed by --debug
)

// BinaryPrefix starts the file name of every third-party backend.
const BinaryPrefix = "tilewright-backend-"

// Description is what a backend's describe subcommand prints as JSON.
type Description struct {
	Protocol int             `json:"protocol"`
	Manifest kernel.Manifest `json:"manifest"`
}

// Reattach says how to reach a backend that was started by hand with --debug. Start is the start
// time of the process (field 22 of /proc/PID/stat), so that a reused pid is not taken for it.
type Reattach struct {
	Name    string `json:"name"`
	Pid     int    `json:"pid"`
	Start   uint64 `json:"start"`
	Network string `json:"network"`
	Addr    string `json:"addr"`
}
