package conformance

import (
	"context"
	"slices"
)

// illness is a trouble as a life has it.
type illness struct {
	name  string
	begin func(context.Context) (sick context.Context, end func())
}

// contextEnded is the trouble that there always is.
var contextEnded = illness{"the context of the call had ended", func(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, func() {}
}}

// illnesses are the troubles of a suite, and the one that there always is.
func (tr *trial) illnesses() []illness {
	out := []illness{contextEnded}
	for _, t := range tr.ills {
		out = append(out, illness{t.Name, func(ctx context.Context) (context.Context, func()) { return ctx, t.Begin() }})
	}
	return out
}

// falls counts a call that may go outside, during which something may go wrong.
func (l *life) falls(ctx context.Context) (sick context.Context, end func()) {
	l.calls++
	l.asked++
	l.report.Calls++
	if l.calls == mostCalls && l.madeUp {
		l.fails(ComesToRest, "there were %d calls", l.calls)
	}
	if !l.inTrouble() {
		return ctx, func() {}
	}
	l.note("from here %s", l.ill.name)
	sick, over := l.ill.begin(ctx)
	return sick, func() {
		over()
		l.note("until here")
	}
}

// inTrouble says that it is this call during which something goes wrong.
func (l *life) inTrouble() bool { return l.ill != nil && l.asked == l.illAt }

// troubles lets each trouble there is come about during each call of a life.
func (tr *trial) troubles(ctx context.Context) {
	whole := tr.newLife(tr.newWorld(), everything.where())
	whole.live(ctx, everything)
	if whole.failed {
		return // what comes of troubles would only repeat it
	}
	type point struct {
		ill illness
		n   int
	}
	var changes, looks []point
	for _, ill := range tr.illnesses() {
		for n := 1; n <= whole.asked; n++ {
			if slices.Contains(whole.begunAt, n) {
				changes = append(changes, point{ill, n}) // each of these, however few lives there may be
			} else {
				looks = append(looks, point{ill, n})
			}
		}
	}
	for _, p := range append(changes, spread(looks, (tr.most+3)/4)...) {
		if ctx.Err() != nil {
			return
		}
		l := tr.newLife(tr.newWorld(), everything.where())
		l.ill, l.illAt = &p.ill, p.n
		l.live(ctx, everything)
	}
}

// spread takes some of all, at even distances; all if most is 0.
func spread[T any](all []T, most int) []T {
	if most == 0 || len(all) <= most {
		return all
	}
	var out []T
	for i := range most {
		out = append(out, all[i*len(all)/most])
	}
	return out
}
