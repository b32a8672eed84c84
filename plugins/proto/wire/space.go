package wire

import (
	"regexp"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
)

// Bounds of what a backend may declare.
const (
	maxParams      = 64
	maxValues      = 256
	maxConstraints = 64
	maxTerms       = 64
	maxFactors     = 16
	maxText        = 4096 // bytes of a doc string or value name
	maxList        = 128  // features, ops, environment names
)

var (
	nameRE    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`) // parameters, environment variables, entries
	featureRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_.]{0,31}$`)   // ISA features, ops
	backendRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)   // backends
	literalRE = regexp.MustCompile(`^-?[0-9]{1,18}$`)              // integer factors of a constraint
)

// ValidName reports whether s can name a backend: up to 32 of a-z, 0-9, - and _.
func ValidName(s string) bool { return backendRE.MatchString(s) }

// ToManifest encodes a manifest.
func ToManifest(m kernel.Manifest) *pb.ManifestResponse {
	out := &pb.ManifestResponse{Name: m.Name, Version: m.Version, Doc: m.Doc, Arch: m.Arch, Requires: m.Requires, Env: m.Env}
	for _, op := range m.Ops {
		out.Ops = append(out.Ops, string(op))
	}
	return out
}

// FromManifest decodes and checks a manifest.
func FromManifest(r *pb.ManifestResponse) (kernel.Manifest, error) {
	m := kernel.Manifest{Name: r.GetName(), Version: r.GetVersion(), Doc: r.GetDoc(), Arch: r.GetArch(),
		Requires: r.GetRequires(), Env: r.GetEnv()}
	for _, op := range r.GetOps() {
		m.Ops = append(m.Ops, kernel.Op(op))
	}
	return m, CheckManifest(m)
}

// CheckManifest reports what is wrong with a manifest.
func CheckManifest(m kernel.Manifest) error {
	switch {
	case !ValidName(m.Name):
		return invalid("manifest: name %q, want up to 32 of a-z, 0-9, - and _", m.Name)
	case len(m.Version) > maxText || len(m.Doc) > maxText:
		return invalid("manifest of %s: version or doc over %d bytes", m.Name, maxText)
	case len(m.Requires) > maxList || len(m.Ops) > maxList || len(m.Env) > maxList:
		return invalid("manifest of %s: a list of more than %d names", m.Name, maxList)
	case len(m.Ops) == 0:
		return invalid("manifest of %s: no ops", m.Name)
	case m.Arch != "" && m.Arch != "amd64" && m.Arch != "arm64":
		return invalid("manifest of %s: arch %q, want amd64, arm64 or none", m.Name, m.Arch)
	}
	for _, f := range m.Requires {
		if !featureRE.MatchString(f) {
			return invalid("manifest of %s: required feature %q", m.Name, f)
		}
	}
	for _, op := range m.Ops {
		if !featureRE.MatchString(string(op)) {
			return invalid("manifest of %s: op %q", m.Name, op)
		}
	}
	for _, e := range m.Env {
		if !nameRE.MatchString(e) {
			return invalid("manifest of %s: environment variable %q", m.Name, e)
		}
	}
	return nil
}

// ToSpace encodes a space.
func ToSpace(s kernel.Space) *pb.SpaceResponse {
	out := &pb.SpaceResponse{Version: s.Version}
	for _, p := range s.Params {
		out.Params = append(out.Params, &pb.Param{Name: p.Name, Doc: p.Doc, Values: p.Values, Names: p.Names, Default: p.Default})
	}
	for _, c := range s.Constraints {
		pc := &pb.Constraint{Doc: c.Doc, Max: c.Max}
		for _, t := range c.Terms {
			pc.Terms = append(pc.Terms, &pb.Term{Factors: t})
		}
		out.Constraints = append(out.Constraints, pc)
	}
	return out
}

// FromSpace decodes and checks a space: bounded, well named, and valid by Space.Validate.
func FromSpace(r *pb.SpaceResponse) (kernel.Space, error) {
	s := kernel.Space{Version: r.GetVersion()}
	for _, p := range r.GetParams() {
		s.Params = append(s.Params, kernel.Param{Name: p.GetName(), Doc: p.GetDoc(), Values: p.GetValues(),
			Names: p.GetNames(), Default: p.GetDefault()})
	}
	for _, c := range r.GetConstraints() {
		kc := kernel.Constraint{Doc: c.GetDoc(), Max: c.GetMax()}
		for _, t := range c.GetTerms() {
			kc.Terms = append(kc.Terms, t.GetFactors())
		}
		s.Constraints = append(s.Constraints, kc)
	}
	return s, CheckSpace(s)
}

// CheckSpace reports what is wrong with a space.
func CheckSpace(s kernel.Space) error {
	if len(s.Params) > maxParams || len(s.Constraints) > maxConstraints || len(s.Version) > maxText {
		return invalid("space: %d parameters (at most %d), %d constraints (at most %d), a version of %d bytes (at most %d)",
			len(s.Params), maxParams, len(s.Constraints), maxConstraints, len(s.Version), maxText)
	}
	for _, p := range s.Params {
		if err := checkParam(p); err != nil {
			return err
		}
	}
	for _, c := range s.Constraints {
		if len(c.Terms) > maxTerms || len(c.Doc) > maxText {
			return invalid("space: constraint %.40q: %d terms, at most %d", c.Doc, len(c.Terms), maxTerms)
		}
		for _, t := range c.Terms {
			if len(t) > maxFactors {
				return invalid("space: constraint %.40q: a term of %d factors, at most %d", c.Doc, len(t), maxFactors)
			}
			for _, f := range t {
				if !nameRE.MatchString(f) && !literalRE.MatchString(f) {
					return invalid("space: constraint %.40q: factor %.40q is neither a parameter nor an integer", c.Doc, f)
				}
			}
		}
	}
	if err := s.Validate(); err != nil {
		return invalid("%v", err)
	}
	return nil
}

func checkParam(p kernel.Param) error {
	switch {
	case !nameRE.MatchString(p.Name):
		return invalid("space: parameter name %.80q, want a letter and up to 63 of letters, digits and _", p.Name)
	case len(p.Values) > maxValues:
		return invalid("space: parameter %s: %d values, at most %d", p.Name, len(p.Values), maxValues)
	case len(p.Doc) > maxText:
		return invalid("space: parameter %s: doc of %d bytes, at most %d", p.Name, len(p.Doc), maxText)
	}
	seen := make(map[int64]bool, len(p.Values))
	for _, v := range p.Values {
		if seen[v] {
			return invalid("space: parameter %s: value %d twice", p.Name, v)
		}
		seen[v] = true
	}
	for _, n := range p.Names {
		if len(n) > maxText {
			return invalid("space: parameter %s: a value name of %d bytes, at most %d", p.Name, len(n), maxText)
		}
	}
	return nil
}
