package recent

// Len is the number of values that are remembered.
func (c *Cache[K, V]) Len() int { return c.known.Len() }
