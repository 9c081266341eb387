package expr

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Budget bounds the evaluations of one reconcile together. What is left of it never grows. A nil
// Budget has no limit. It is not safe for concurrent use.
type Budget struct {
	ended               func() error
	maxCost, cost       uint64 // in CEL's cost units: the limit, and what has been spent
	maxBytes, bytes     int    // of the results in templates
	isCostly, isTooLong bool
}

// NewBudget returns a budget of CEL's cost units and of approximate bytes of rendered results.
// Once ended returns an error, such as that of a context, every evaluation returns it; one that
// has begun ends by its own limits.
func NewBudget(ended func() error, cost uint64, bytes int) *Budget {
	return &Budget{ended: ended, maxCost: cost, maxBytes: bytes}
}

// The names of what a Budget bounds, as in BudgetExceeded.
const (
	BudgetCost  = "cost"
	BudgetBytes = "bytes"
)

// BudgetExceeded is the error of an evaluation that a Budget does not allow any more.
type BudgetExceeded struct {
	// At is the field whose evaluation was refused.
	At object.Path
	// Limit is BudgetCost or BudgetBytes, Max its value.
	Limit string
	Max   uint64
}

func (e *BudgetExceeded) Error() string {
	what := "the expressions of one reconcile exceed a CEL cost of"
	if e.Limit == BudgetBytes {
		what = "the results of the expressions of one reconcile exceed"
	}
	unit := ""
	if e.Limit == BudgetBytes {
		unit = " bytes"
	}
	return pathPrefix(e.At) + fmt.Sprintf("%s %d%s together", what, e.Max, unit)
}

// untrackedCost is what an evaluation costs whose cost CEL does not track, since the length of
// the expression bounds it.
const untrackedCost = 10

// check returns an error if nothing may be evaluated any more.
func (b *Budget) check(p *Program) error {
	if b == nil {
		return nil
	}
	if b.cost > b.maxCost {
		b.isCostly = true
		return &BudgetExceeded{At: p.at, Limit: BudgetCost, Max: b.maxCost}
	}
	return b.ended()
}

// spendCost charges an evaluation. One that exceeds the budget has a result: the next has none.
func (b *Budget) spendCost(cost uint64) {
	if b != nil {
		b.cost += cost
	}
}

// spendBytes charges a result that becomes part of a document.
func (b *Budget) spendBytes(at object.Path, value any) error {
	if b == nil {
		return nil
	}
	if b.bytes += plain.Size(value); b.bytes > b.maxBytes {
		b.isTooLong = true
		return &BudgetExceeded{At: at, Limit: BudgetBytes, Max: uint64(b.maxBytes)}
	}
	return nil
}

// Exceeded lists which of BudgetCost and BudgetBytes have refused an evaluation.
func (b *Budget) Exceeded() (limits []string) {
	if b == nil {
		return nil
	}
	if b.isCostly {
		limits = append(limits, BudgetCost)
	}
	if b.isTooLong {
		limits = append(limits, BudgetBytes)
	}
	return limits
}
