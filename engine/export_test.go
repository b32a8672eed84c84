package engine

// KeepBehind sets how many positions behind a sliding window stay in the cache.
func (s *Session) KeepBehind(n int) { s.cache.Keep = n }
