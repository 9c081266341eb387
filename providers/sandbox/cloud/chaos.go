package cloud

import (
	"math"
	"math/rand/v2"
	"time"
)

// Chaos is trouble by chance, for soak tests: each call is hit by at most one kind of
// it. The same seed and the same calls have the same luck.
type Chaos struct {
	Seed uint64 `json:"seed,omitempty"`
	// Throttle, Refuse and Lose are the probabilities, from 0 to 1, that a call is
	// Throttled, is Unavailable without effect, and that its answer is lost; Late and
	// Break, that one which changes something arrives later, and that its operation
	// fails half way. Together they are at most 1.
	Throttle float64 `json:"throttle,omitempty"`
	Refuse   float64 `json:"refuse,omitempty"`
	Lose     float64 `json:"lose,omitempty"`
	Late     float64 `json:"late,omitempty"`
	Break    float64 `json:"break,omitempty"`
	// Delay is how late a late call is at most, and what Throttled asks for.
	Delay time.Duration `json:"delay,omitempty"`
}

// SetChaos says what chance does from now on, over restarts as well; the zero Chaos
// does nothing. It is refused with InvalidParameter if it makes no sense.
func (c *Cloud) SetChaos(chaos Chaos) error {
	return c.steer(func(w *world, _ time.Time) error {
		if err := chaos.check(); err != nil {
			return err
		}
		w.Chaos, w.moved = chaos, true
		return nil
	})
}

func (c Chaos) check() error {
	sum := 0.0
	for _, p := range []float64{c.Throttle, c.Refuse, c.Lose, c.Late, c.Break} {
		if p < 0 || math.IsNaN(p) {
			return invalid("chaos", "%v is no probability", p)
		}
		sum += p
	}
	if sum > 1 {
		return invalid("chaos", "the probabilities add up to %v", sum)
	}
	return checkDurations(c.Delay)
}

// chance draws what befalls a call. The draw is counted, and so written down, before
// the call is answered: whoever restarts after bad luck gets another.
func (w *world) chance(v Verb) Fault {
	c := w.Chaos
	if c.Throttle+c.Refuse+c.Lose+c.Late+c.Break == 0 {
		return Fault{}
	}
	w.Draws++
	w.moved = true
	luck := rand.New(rand.NewPCG(c.Seed, w.Draws))
	p := luck.Float64()
	below := func(limit float64) bool {
		p -= limit
		return p < 0
	}
	switch {
	case below(c.Throttle):
		return Fault{Refuse: Throttled, RetryAfter: c.Delay}
	case below(c.Refuse):
		return Fault{Refuse: Unavailable}
	case below(c.Lose):
		return Fault{Lose: Timeout}
	case !v.changes():
		return Fault{}
	case below(c.Late):
		return Fault{Late: 1 + time.Duration(luck.Float64()*float64(c.Delay))}
	case below(c.Break):
		return Fault{Break: true}
	}
	return Fault{}
}
