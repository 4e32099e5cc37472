package api

// Hold counts bytes as if bodies were being read.
func (s *Server) Hold(bytes int64) { s.reading.Add(bytes) }

// MaxBodies is how many bytes of bodies may be held at once.
func (s *Server) MaxBodies() int64 { return bodiesAtOnce * s.cfg.MaxBody }

// PushWords are what a push can be refused with.
func PushWords() []string { return pushWords }
