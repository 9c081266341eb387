package expr

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestAComparisonWithTheTimeSaysWhenItChanges evaluates expressions at noon, right before they change, and then.
func TestAComparisonWithTheTimeSaysWhenItChanges(t *testing.T) {
	noon := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	const one = "timestamp('2026-12-24T13:00:00Z')"
	for source, want := range map[string]struct {
		is    bool
		after time.Duration // 0 if it never changes
	}{
		"time.now() < " + one:                                                      {true, time.Hour},
		"time.now() <= " + one:                                                     {true, time.Hour + 1},
		"time.now() > " + one:                                                      {false, time.Hour + 1},
		"time.now() >= " + one:                                                     {false, time.Hour},
		one + " > time.now()":                                                      {true, time.Hour},
		one + " >= time.now()":                                                     {true, time.Hour + 1},
		one + " < time.now()":                                                      {false, time.Hour + 1},
		one + " <= time.now()":                                                     {false, time.Hour},
		"time.now() + duration('30m') >= " + one:                                   {false, 30 * time.Minute},
		"duration('30m') + time.now() >= " + one:                                   {false, 30 * time.Minute},
		"time.now() - duration('30m') >= " + one:                                   {false, 90 * time.Minute},
		"time.now() - o.made >= duration('24h')":                                   {false, 14 * time.Hour},
		"duration('24h') <= time.now() - o.made":                                   {false, 14 * time.Hour},
		one + " - time.now() < duration('10m')":                                    {false, 50*time.Minute + 1},
		one + " - time.now() <= duration('10m')":                                   {false, 50 * time.Minute},
		"duration('10m') > " + one + " - time.now()":                               {false, 50*time.Minute + 1},
		"time.now() - duration('1h') - o.made > duration('1h')":                    {true, 0},
		"time.now() > o.made":                                                      {true, 0},
		"time.now() < " + one + " && time.now() < o.soon":                          {true, 15 * time.Minute},
		"[o.soon, " + one + "].exists(t, time.now() < t)":                          {true, 15 * time.Minute},
		"time.now() > o.made || time.now() > " + one:                               {true, 0},
		"time.now() < timestamp('9999-12-31T23:59:59Z') + duration('0s')":          {true, 0},
		"cel.bind(now, time.now(), now > o.made && now - o.soon < duration('0s'))": {true, 15 * time.Minute},
	} {
		env, err := NewEnv([]Declaration{{Name: "o", Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"},
			Properties: map[string]spec.Schema{"made": *spec.DateTimeProperty(), "soon": *spec.DateTimeProperty()}}}}}, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		p, problems := env.Compile(source, "spec.x")
		if problems != nil {
			t.Errorf("%s: %v", source, problems.Err())
			continue
		}
		vars := map[string]any{"o": map[string]any{"made": "2026-12-24T02:00:00Z", "soon": "2026-12-24T12:15:00Z"}}
		at := func(when time.Time) (bool, time.Time) {
			b := NewBudget(func() error { return nil }, math.MaxUint64, 0, math.MaxInt)
			b.SetTime(when)
			value, err := p.EvalWithin(b, vars)
			if err != nil {
				t.Errorf("%s: %v", source, err)
			}
			is, _ := value.(bool)
			return is, b.NextChange()
		}
		is, next := at(noon)
		if is != want.is {
			t.Errorf("%s is %v", source, is)
		}
		if want.after == 0 {
			if !next.IsZero() && next.Year() < 9999 {
				t.Errorf("%s changes at %s", source, next)
			}
			continue
		}
		if next.Sub(noon) != want.after {
			t.Errorf("%s changes after %s, want %s", source, next.Sub(noon), want.after)
		}
		if before, _ := at(next.Add(-1)); before != is {
			t.Errorf("%s is %v before it changes", source, before)
		}
		if strings.Contains(source, "exists") {
			continue // another one is true
		}
		if then, _ := at(next); then == is {
			t.Errorf("%s is %v when it changes", source, then)
		}
	}
}
