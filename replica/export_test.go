package replica

// QueueLen returns how many entries the queue of r holds, those of callers that have gone included. The table is not
// visible from outside, and a leak in it would not be either.
func QueueLen[S, R any](r *Replica[S, R]) int {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return len(r.table.front) + len(r.table.queue) - r.table.head
}
