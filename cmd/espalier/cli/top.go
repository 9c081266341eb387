package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe/top"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

// topFlags are the flags of top.
type topFlags struct {
	program  socketFlags
	output   outputFlag
	interval time.Duration
	watch    bool
	sort     string
}

// How often --watch reads by default, and the shortest interval between two readings.
const (
	defaultTopInterval = 2 * time.Second
	minTopInterval     = 100 * time.Millisecond
)

func newTop() *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:   "top [KIND]",
		Short: "Show what the kinds of definitions cost the running controllers",
		Long: "Shows the kinds that the running espalier serves, the most expensive first: their objects and how many\n" +
			"are ready, reconciles, those that failed, requests to the API server, the time of all reconciles together\n" +
			"and of one (median and 99th percentile), and the objects that wait in the queue. Below are the functions that\n" +
			"took most time. With KIND, such as WebApp or webapp.kro.run, only that kind is shown, with more of them.\n\n" +
			"The numbers count from the start of the program or, with --interval, for that time from now on. The program\n" +
			"must run on this machine, or in this container, as this user, as with 'espalier watches'.\n\n" +
			"Exit codes: 0 success, 1 error, such as that no program listens, 2 usage error.",
		Example: "  espalier top\n" +
			"  espalier top webapp --interval 30s\n" +
			"  espalier top --watch --sort requests\n" +
			"  kubectl -n espalier-system exec $(kubectl -n espalier-system get lease espalier.espalier.dev \\\n" +
			"    -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1) \\\n" +
			"    -- /espalier top -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{errors.New("top takes one kind at most")}
			}
			return showTop(cmd, flags, strings.Join(args, ""))
		},
	}
	flags.program.add(cmd)
	flags.output.add(cmd)
	cmd.Flags().DurationVar(&flags.interval, "interval", 0, "time to measure, such as 10s, instead of all since the program began")
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "repeat that until interrupted, each 2s by default")
	cmd.Flags().StringVar(&flags.sort, "sort", top.Sorts[0], "order of the kinds: "+strings.Join(top.Sorts, ", "))
	return cmd
}

func (f topFlags) check() error {
	if !slices.Contains(top.Sorts, f.sort) {
		return &usageError{fmt.Errorf("--sort can be %s, not %q", strings.Join(top.Sorts, ", "), f.sort)}
	}
	if f.interval != 0 && f.interval < minTopInterval {
		return &usageError{fmt.Errorf("--interval must be at least %s, not %s", minTopInterval, f.interval)}
	}
	return nil
}

func showTop(cmd *cobra.Command, flags topFlags, kind string) error {
	if err := flags.check(); err != nil {
		return err
	}
	socket, program, err := flags.program.path()
	if err != nil {
		return err
	}
	source := topSource{
		read: func(ctx context.Context) (profile.Reading, error) {
			reading, err := introspect.ReadProfile(ctx, socket)
			return reading, unreachable(err, program)
		},
		options: top.Options{Kind: kind, Sort: flags.sort},
	}
	ctx, to := cmd.Context(), cmd.OutOrStdout()
	show := func(t top.Table) error { return flags.print(to, t) }
	if !flags.watch {
		return source.once(ctx, flags.interval, show)
	}
	if flags.interval == 0 {
		flags.interval = defaultTopInterval
	}
	if screen, ok := terminal(to); ok && flags.output == tableOutput {
		return topScreen(ctx, screen, func(ctx context.Context, show func(top.Table) error) error {
			return source.repeat(ctx, flags.interval, show)
		})
	}
	return source.repeat(ctx, flags.interval, func(t top.Table) error {
		err := show(t)
		if err == nil && flags.output == tableOutput {
			_, err = io.WriteString(to, "\n")
		}
		if err == nil && flags.output == yamlOutput {
			_, err = io.WriteString(to, "---\n")
		}
		return err
	})
}

func (f topFlags) print(to io.Writer, t top.Table) error {
	return f.output.printText(to, t, t.Text(widthOf(to)))
}

// topSource reads a running program.
type topSource struct {
	read    func(context.Context) (profile.Reading, error)
	options top.Options
}

// once shows what has happened since the program began, or happens in an interval other than 0.
func (s topSource) once(ctx context.Context, interval time.Duration, show func(top.Table) error) error {
	first, err := s.read(ctx)
	if err != nil {
		return err
	}
	if interval == 0 {
		return s.show(first, nil, show)
	}
	if _, err := top.Compute(first, nil, s.options); err != nil {
		return err // before the interval, not after it
	}
	if !pause(ctx, interval) {
		return context.Cause(ctx)
	}
	now, err := s.read(ctx)
	if err != nil {
		return err
	}
	return s.show(now, &first, show)
}

// repeat shows what has happened since the program began, and then what happens in each interval, until the context ends.
func (s topSource) repeat(ctx context.Context, interval time.Duration, show func(top.Table) error) error {
	var earlier *profile.Reading
	for {
		now, err := s.read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.show(now, earlier, show)
		}
		if err != nil {
			return err
		}
		if earlier = &now; !pause(ctx, interval) {
			return nil
		}
	}
}

func (s topSource) show(now profile.Reading, earlier *profile.Reading, show func(top.Table) error) error {
	table, err := top.Compute(now, earlier, s.options)
	if err != nil {
		return err
	}
	return show(table)
}

// pause waits; false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
