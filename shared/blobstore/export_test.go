package blobstore

import "time"

// SetStall shortens the patience with silent downloads.
func (s *Store) SetStall(d time.Duration) { s.stall = d }
