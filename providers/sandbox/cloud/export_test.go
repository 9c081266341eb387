package cloud

// Shorten makes the ledger be written anew as soon as it is longer than so many bytes
// and mostly history.
func (c *Cloud) Shorten(limit int64) { c.ledger.limit = limit }
