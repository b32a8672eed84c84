package cache

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TensorComprehensions#230: what another machine measured is a candidate here.
func TestBundleCarriesCandidates(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := tempStore(t)
	if err := a.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	if err := a.PutRule(Rule{Key: testRuleKey()}); err != nil {
		t.Fatal(err)
	}
	out, n, err := a.Export(priv)
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	b, _ := tempStore(t)
	if added, _, err := b.Import(out, pub); err != nil || added != 2 {
		t.Fatal(added, err)
	}
	if _, look := b.Decision(testDecisionKey()); look.Status != Revalidate || !strings.Contains(look.Why, "imported") {
		t.Errorf("%+v", look)
	}
	if _, look := b.Rule(testRuleKey()); look.Status != Revalidate {
		t.Errorf("%+v", look)
	}
	other, _, _ := ed25519.GenerateKey(nil)
	if _, _, err := b.Import(out, other); !errors.Is(err, ErrSignature) {
		t.Errorf("foreign key: %v", err)
	}
	i := bytes.Index(out, []byte(`"bundle"`)) + 20
	out[i] ^= 1
	if _, _, err := b.Import(out, pub); err == nil {
		t.Error("an altered bundle was imported")
	}
	if added, kept, err := a.Import(mustExport(t, a, priv), pub); err != nil || added != 0 || kept != 2 {
		t.Errorf("own entries must be kept: %d %d %v", added, kept, err)
	}
}

func mustExport(t *testing.T, s *Store, k ed25519.PrivateKey) []byte {
	b, _, err := s.Export(k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A bundle whose keys name another schema replaces nothing that was measured here.
func TestImportKeepsWhatIsHereWhateverTheSchema(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := tempStore(t)
	if err := errors.Join(s.PutDecision(testDecision()), s.PutRule(Rule{Key: testRuleKey()})); err != nil {
		t.Fatal(err)
	}
	d, r := testDecision(), Rule{Key: testRuleKey()}
	d.Key.Schema, r.Key.Schema = 7, 7
	body, err := json.Marshal(bundle{Schema: Schema, Decisions: []Decision{d}, Rules: []Rule{r}})
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	data, err := json.Marshal(signedBundle{b64(body), b64(pub), b64(ed25519.Sign(priv, append([]byte(bundleContext), body...)))})
	if err != nil {
		t.Fatal(err)
	}
	if added, kept, err := s.Import(data, pub); err != nil || added != 0 || kept != 2 {
		t.Errorf("added %d, kept %d, %v", added, kept, err)
	}
	if _, look := s.Decision(testDecisionKey()); look.Status != Exact {
		t.Errorf("%+v", look)
	}
}

// TensorComprehensions#230: what was imported is not exported as if it had been measured here.
func TestImportedEntriesAreNotExported(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := tempStore(t)
	if err := a.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	b, _ := tempStore(t)
	if _, _, err := b.Import(mustExport(t, a, priv), pub); err != nil {
		t.Fatal(err)
	}
	if _, n, err := b.Export(priv); err != nil || n != 0 {
		t.Errorf("exported %d, %v", n, err)
	}
	d, look := b.Decision(testDecisionKey())
	if look.Fits(d) {
		t.Error("an imported decision would be run unmeasured")
	}
}
