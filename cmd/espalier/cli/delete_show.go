package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// showDeletion shows what run tells: to programs, on a screen, or in lines.
func showDeletion(ctx context.Context, to io.Writer, title, output string, run func(context.Context, func(moment) error) error) error {
	screen, ok := terminal(to)
	switch {
	case output == "json":
		out := documents{to: to}
		return run(ctx, func(m moment) error { return out.write(documentOf(m, time.Now())) })
	case ok:
		return deletionScreen(ctx, screen, title, run)
	}
	fmt.Fprintf(to, "Deleting %s; it goes on when this is interrupted\n\n", title)
	lines := deletionLines{to: to}
	return run(ctx, lines.tell)
}

// deletionDocument is a moment for programs. Fields may be added, and none
// changes its meaning or goes.
type deletionDocument struct {
	Gone     bool             `json:"gone"`
	Progress observe.Progress `json:"progress"`
	// Blockers are what holds the deletion up, and LeftBehind what it has let go
	// of, which may exist still.
	Blockers   []observe.Blocked `json:"blockers"`
	LeftBehind []observe.Blocked `json:"leftBehind,omitempty"`
	Tree       *observe.Node     `json:"tree,omitempty"`
}

func documentOf(m moment, now time.Time) deletionDocument {
	out := deletionDocument{Gone: m.world.Root == nil, Progress: m.progress, Blockers: []observe.Blocked{}, LeftBehind: m.left}
	if !out.Gone {
		tree := observe.Build(m.world, now)
		out.Tree, out.Blockers = &tree, observe.HoldupOf(tree).Blockers
	}
	return out
}

// deletionLines tells a deletion in lines, one for each thing that happens.
type deletionLines struct {
	to       io.Writer
	tree     treeTeller
	progress observe.Progress
	policy   report.Policy
}

func (l *deletionLines) tell(m moment) error {
	now := time.Now()
	text := l.tree.tell(m.world, now)
	if m.world.Root != nil {
		l.policy = policyOf(m.world)
	}
	if m.progress != l.progress {
		l.progress = m.progress
		text += fmt.Sprintf("%s  %s\n", now.Format(clock), m.progress.Text(l.policy))
	}
	_, err := io.WriteString(l.to, text)
	return err
}

// policyOf is what becomes of the children of a tree's top, as far as it tells.
func policyOf(w observe.World) report.Policy {
	if said := report.ReadDeletion(w.Root); said != nil {
		return said.Policy
	}
	return report.Background
}
