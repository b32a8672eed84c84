package main

import (
	"io"
	"strings"
)

// stopper writes text up to the first stop string, holding back what may be the start of one.
type stopper struct {
	w     io.Writer
	stops []string
	held  string
	text  strings.Builder
	done  bool
}

func (s *stopper) write(t string) error {
	if s.done {
		return nil
	}
	s.held += t
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); stop != "" && i >= 0 {
			s.held, s.done = s.held[:i], true
			return s.flush()
		}
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	out := s.held[:len(s.held)-keep]
	s.held = s.held[len(out):]
	return s.put(out)
}

func (s *stopper) flush() error {
	out := s.held
	s.held = ""
	return s.put(out)
}

func (s *stopper) put(t string) error {
	s.text.WriteString(t)
	_, err := io.WriteString(s.w, t)
	return err
}
