package main

import (
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/test/bench/curve"
)

// measure is what was measured at several sizes.
type measure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Chart names the chart that shows it; empty for none.
	Chart string `json:"chart,omitempty"`
	// Budget bounds the value at the largest size, as a multiple of that at the smallest; 0 for none.
	Budget float64       `json:"budget,omitempty"`
	Points []curve.Point `json:"points"`
}

// at returns the measure with a value at one size.
func (m measure) at(size int, value float64) measure {
	m.Points = []curve.Point{{Size: float64(size), Value: value}}
	return m
}

// plot adds measures, or the points of known ones. The sizes are numbers of the named objects.
func (b *bench) plot(of string, measures ...measure) {
	if b.grown == nil {
		b.grown = map[string][]measure{}
	}
	for _, m := range measures {
		known := slices.IndexFunc(b.grown[of], func(k measure) bool { return k.Name == m.Name })
		if known < 0 {
			b.grown[of] = append(b.grown[of], m)
			continue
		}
		k := &b.grown[of][known]
		k.Points = append(k.Points, m.Points...)
	}
}

// growth is the value at the largest size as a multiple of that at the smallest, 0 if there is none.
func (m measure) growth() float64 {
	first, last := m.Points[0], m.Points[len(m.Points)-1]
	if first.Size == last.Size || first.Value <= 0 {
		return 0
	}
	return last.Value / first.Value
}

// exceeds reports whether the growth is over its budget.
func (m measure) exceeds() bool { return m.Budget > 0 && m.growth() > m.Budget }

// verdict compares the growth with its budget; without one of both there is nothing to compare.
func (m measure) verdict() string {
	if m.Budget == 0 || m.growth() == 0 {
		return "–"
	}
	return row{Value: m.growth(), Budget: m.Budget, OK: !m.exceeds()}.verdict()
}

// exponent formats the exponent of the measure's growth.
func (m measure) exponent() string {
	k, ok := curve.Exponent(m.Points)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f", k+0) // no negative zero
}

// cell formats the value at a size.
func (m measure) cell(size float64) string {
	for _, p := range m.Points {
		if p.Size == size {
			return number(p.Value)
		}
	}
	return "–"
}

// multiple formats the growth.
func (m measure) multiple() string {
	if m.growth() == 0 {
		return "–"
	}
	return number(m.growth()) + " ×"
}
