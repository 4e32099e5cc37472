package journal

import "context"

// New makes a journal without asking its database for anything; nothing may be
// asked of it before Prepare has returned nil. The error is about the settings.
func New(cfg Config) (*SQL, error) { return connect(cfg) }

// Prepare checks and does what Open promises. It may be repeated until it
// returns nil; ErrUnfit is what no repetition mends.
func (s *SQL) Prepare(ctx context.Context) error { return s.prepare(ctx) }
