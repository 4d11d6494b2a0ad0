package azq

// Woken receives when [Queue.Wake] was called.
func (q *Queue) Woken() <-chan struct{} { return q.wake }
