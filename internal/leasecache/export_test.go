package leasecache

// Queues is for how many asks the queues of all keys have memory.
func (s *Store) Queues() (room int) {
	s.walk(func(k key) { room += cap(k.Value.waiting) }, func() bool { return true })
	return room
}
