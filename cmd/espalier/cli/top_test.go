package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/observe/top"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

func TestTopErrors(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	socket := filepath.Join(t.TempDir(), "own", "none.sock")
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"No program listens":     {[]string{"--socket", socket}, 1, "no program listens on " + socket + ": 'espalier up' or 'espalier run' must be running"},
		"Nor to be watched":      {[]string{"--socket", socket, "--watch"}, 1, "no program listens"},
		"An unknown order":       {[]string{"--sort", "cost"}, 2, "--sort can be time, latency, reconciles"},
		"An unknown format":      {[]string{"-o", "wide"}, 2, "must be one of table, json, yaml"},
		"An interval of no time": {[]string{"--interval", "1ns"}, 2, "--interval must be at least 100ms"},
		"A negative interval":    {[]string{"--interval=-1s"}, 2, "--interval must be at least 100ms"},
		"Two kinds":              {[]string{"web", "database"}, 2, "top takes one kind at most"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"top"}, tc.args...)...)
			if code != tc.code || !strings.Contains(errs, tc.says) || out != "" {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
		})
	}
}

// growing is a program that makes a request each second since it began.
func growing(began time.Time) func(context.Context) (profile.Reading, error) {
	return func(context.Context) (profile.Reading, error) {
		now := time.Now()
		return profile.Reading{Began: began, At: now, Kinds: []profile.Kind{{Kind: "Web", Requests: uint64(now.Sub(began) / time.Second)}}}, nil
	}
}

func TestTopReadsAtIntervals(t *testing.T) {
	type shown struct {
		requests uint64
		sampled  bool
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		<-time.After(time.Hour)
		var all []shown
		show := func(table top.Table) error {
			all = append(all, shown{table.Kinds[0].Requests, table.Sampled})
			return nil
		}
		source := topSource{read: growing(began)}
		for _, interval := range []time.Duration{0, 10 * time.Second} {
			if err := source.once(t.Context(), interval, show); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := source.repeat(ctx, 2*time.Second, show); err != nil {
			t.Fatal(err)
		}
		want := []shown{{3600, false}, {10, true}, {3610, false}, {2, true}, {2, true}}
		if diff := cmp.Diff(want, all, cmp.AllowUnexported(shown{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestTopEndsWithWhatFails(t *testing.T) {
	show := func(top.Table) error { return nil }
	failing := topSource{read: func(context.Context) (profile.Reading, error) { return profile.Reading{}, errors.New("gone") }}
	unknown := topSource{read: growing(time.Now()), options: top.Options{Kind: "database"}}
	for want, source := range map[string]topSource{"gone": failing, `no controller runs for kind "database"`: unknown} {
		for name, run := range map[string]func() error{
			"once":     func() error { return source.once(t.Context(), 0, show) },
			"interval": func() error { return source.once(t.Context(), time.Hour, show) },
			"repeat":   func() error { return source.repeat(t.Context(), time.Hour, show) },
		} {
			if err := run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, not %s", name, err, want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (topSource{read: growing(time.Now())}).once(ctx, time.Hour, show); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
}

func TestTopScreen(t *testing.T) {
	var m tea.Model = topModel{}
	update := func(msg tea.Msg) tea.Cmd {
		var cmd tea.Cmd
		m, cmd = m.Update(msg)
		return cmd
	}
	update(tea.WindowSizeMsg{Width: 60, Height: 10})
	if text := m.(topModel).last(); text != "" {
		t.Errorf("before the first table it shows %q", text)
	}
	table := top.Table{To: time.Unix(60, 0), From: time.Unix(0, 0), Kinds: []top.Kind{{Kind: "Web", Instances: 2, Ready: 1}}}
	for range 20 {
		table.Functions = append(table.Functions, top.Function{Kind: "Web", Function: "f", Calls: 1})
	}
	if cmd := update(table); cmd != nil {
		t.Error("a table ends the screen")
	}
	view := m.View().Content
	if lines := strings.Split(view, "\n"); len(lines) > 10 || !strings.Contains(view, "Web") || !strings.Contains(view, "1/2") || !strings.Contains(view, "too small for the rest") {
		t.Errorf("%d lines are shown:\n%s", len(lines), view)
	}
	if last := m.(topModel).last(); !strings.Contains(last, "Since the program began, 60s ago") || strings.Count(last, "\n") < 20 {
		t.Errorf("what stays is\n%s", last)
	}
	for _, msg := range []tea.Msg{topEnded{}, tea.KeyPressMsg{Code: 'q', Text: "q"}} {
		if cmd := update(msg); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%v does not end the screen", msg)
		}
	}
}
