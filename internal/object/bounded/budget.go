// Package bounded reads what other people wrote within limits of memory. A small file can stand for one of any size: it is
// decompressed, or its YAML aliases are replaced, and a value takes far more memory than its text.
//
// Pure: it decides from what it reads.
package bounded

import "io"

// maxRead bounds one read, in bytes, so readers that read ahead take little from the next document.
const maxRead = 32 << 10

// Budget is how many bytes may still be read, from one reader or from several together.
type Budget struct {
	max, left int64
	exceeded  error
}

// NewBudget returns a budget, and the error of reading more than that.
func NewBudget(bytes int64, exceeded error) *Budget { return &Budget{bytes, bytes, exceeded} }

// Renew makes the whole budget available again, as for the next document of a stream.
func (b *Budget) Renew() { b.left = b.max }

// Reader returns a reader that fails once more than the budget is read. It reads at most a byte more from the given one.
func (b *Budget) Reader(from io.Reader) io.Reader { return &reader{from, b} }

type reader struct {
	from   io.Reader
	budget *Budget
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	b := r.budget
	if b.left < 0 {
		return 0, b.exceeded
	}
	n, err := r.from.Read(p[:min(int64(len(p)), b.left+1, maxRead)])
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.exceeded
	}
	return n, err
}
