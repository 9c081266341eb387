package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
)

// TestAnInterruptNamesWhatItEnds interrupts commands as a signal does.
func TestAnInterruptNamesWhatItEnds(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	reason := errors.New("interrupt signal received")
	interrupt(reason)
	if code, _, stderr := call(ctx, "test", "../../../examples/tested"); code != exitFailed || stderr != "espalier: test was interrupted\n" {
		t.Errorf("%d %q", code, stderr)
	}
	root, aws, types := &cobra.Command{Use: "espalier"}, &cobra.Command{Use: "aws"}, &cobra.Command{Use: "types"}
	root.AddCommand(aws)
	aws.AddCommand(types)
	for _, test := range []struct {
		reason string
		ctx    context.Context
		err    error
		want   string
	}{
		{"only the signal", ctx, reason, "aws types was interrupted"},
		{"a request that it ended", ctx, fmt.Errorf("list Widgets: %w", context.Canceled), "aws types was interrupted: list Widgets"},
		{"advice below", ctx, fmt.Errorf("list Widgets: %w\nrun it again", reason), "aws types was interrupted: list Widgets: interrupt signal received\nrun it again"},
		{"another failure", ctx, errors.New("no such file"), "no such file"},
		{"something else was canceled", t.Context(), context.Canceled, "context canceled"},
		{"printed already", ctx, &codedError{code: exitBlocked}, ""},
	} {
		if got := messageOf(test.ctx, types, test.err); got != test.want {
			t.Errorf("%s: %q, want %q", test.reason, got, test.want)
		}
	}
}
