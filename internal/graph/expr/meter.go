package expr

import (
	"iter"
	"maps"
	"time"
)

// Meter measures the evaluations that a Budget allows. It does not measure expressions that are a path alone: they take less
// time than a measurement. A nil Meter measures nothing. It is not safe for concurrent use.
type Meter struct {
	clock func() time.Duration
	spent map[*Program]Spent
}

// Spent is what evaluations of one expression took together.
type Spent struct {
	Evaluations uint64
	Time        time.Duration
	Cost        uint64 // in CEL's cost units
}

// NewMeter returns a meter that reads a monotonic clock, such as the time since the start of the program.
func NewMeter(clock func() time.Duration) *Meter { return &Meter{clock: clock} }

// Take returns what was measured since the last Take, in no order.
func (m *Meter) Take() iter.Seq2[*Program, Spent] {
	taken := m.spent
	m.spent = nil
	return maps.All(taken)
}

// begin returns the time at which an evaluation begins.
func (m *Meter) begin() time.Duration {
	if m == nil {
		return 0
	}
	return m.clock()
}

// end records an evaluation.
func (m *Meter) end(p *Program, began time.Duration, cost uint64) {
	if m == nil {
		return
	}
	if m.spent == nil {
		m.spent = map[*Program]Spent{}
	}
	s := m.spent[p]
	s.Evaluations++
	s.Time += m.clock() - began
	s.Cost += cost
	m.spent[p] = s
}
