package session

import (
	"fmt"
	"log/slog"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/journal"
)

func (t *tune) openJournal() error {
	if t.Journal == "" {
		return nil
	}
	key, err := t.Target.DecisionKey()
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s %s %+v %t %t %t %d", kernel.KeyDigest(key), kernel.SoftDigest(key), t.Knobs, t.Decode, t.Prefill, t.AllowBusy, t.Seed)
	if t.journal, err = journal.Open(t.Journal, id); err != nil {
		slog.Warn("no journal: this tune cannot be resumed", "why", err)
		t.journal = nil
	} else if n := t.journal.Resumed(); n > 0 {
		t.Progress("resume", fmt.Sprintf("%d finished pieces", n))
	}
	return nil
}

func (t *tune) closeJournal() {
	if t.journal != nil {
		t.journal.Close()
	}
}

// done looks a finished piece up; add records one. Without a journal nothing is found or kept.
func (t *tune) done(kind, key string, v any) bool {
	if t.journal == nil {
		return false
	}
	ok, err := t.journal.Done(kind, key, v)
	if err != nil {
		slog.Warn("journal entry not used", "why", err)
	}
	return ok && err == nil
}

func (t *tune) add(kind, key string, v any) {
	if t.journal == nil {
		return
	}
	if err := t.journal.Add(kind, key, v); err != nil {
		slog.Warn("not journalled", "why", err)
	}
}
