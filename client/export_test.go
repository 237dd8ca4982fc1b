package client

// Waiting is how many calls wait for a request, for tests that must know that they do.
func Waiting(c *Client) int {
	c.gather.mu.Lock()
	defer c.gather.mu.Unlock()
	return len(c.gather.waiting)
}
