package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// showDeletion shows the states that run passes: as documents of JSON or YAML, on a screen, or in lines.
func showDeletion(ctx context.Context, to io.Writer, title string, output outputFlag, run func(context.Context, func(deletionState) error) error) error {
	screen, ok := terminal(to)
	switch {
	case output != tableOutput:
		out := documents{to: to, format: output}
		return run(ctx, func(m deletionState) error { return out.write(documentOf(m, time.Now())) })
	case ok:
		return deletionScreen(ctx, screen, title, run)
	}
	fmt.Fprintf(prose(to), "Deleting %s; the deletion goes on if you interrupt this\n\n", title)
	lines := deletionLines{to: to, tree: treePrinter{width: widthOf(to)}}
	return run(ctx, lines.print)
}

// deletionDocument is the JSON of a state. Fields may be added, and no field changes its
// meaning or disappears.
type deletionDocument struct {
	Gone     bool             `json:"gone"`
	Progress observe.Progress `json:"progress"`
	// Blockers block the deletion; LeftBehind were left behind and may still exist.
	Blockers   []observe.BlockedObject `json:"blockers"`
	LeftBehind []observe.BlockedObject `json:"leftBehind,omitempty"`
	Tree       *observe.Node           `json:"tree,omitempty"`
}

func documentOf(m deletionState, now time.Time) deletionDocument {
	out := deletionDocument{Gone: m.cluster.Root == nil, Progress: m.progress, Blockers: []observe.BlockedObject{}, LeftBehind: m.leftBehind}
	if !out.Gone {
		tree := observe.Build(m.cluster, now)
		out.Tree, out.Blockers = &tree, observe.FindBlockers(tree).Blockers
	}
	return out
}

// deletionLines prints a deletion, one line for each change.
type deletionLines struct {
	to       io.Writer
	tree     treePrinter
	progress observe.Progress
	policy   report.Policy
}

func (l *deletionLines) print(m deletionState) error {
	now := time.Now()
	text := l.tree.format(m.cluster, now)
	if m.cluster.Root != nil {
		l.policy = policyOf(m.cluster)
	}
	if m.progress != l.progress {
		l.progress = m.progress
		text += fmt.Sprintf("%s  %s\n", now.Format(clock), m.progress.Text(l.policy))
	}
	_, err := io.WriteString(prose(l.to), text)
	return err
}

// policyOf is the deletion policy in the status of a tree's root.
func policyOf(w observe.ClusterState) report.Policy {
	if deletion := report.ReadDeletion(w.Root); deletion != nil {
		return deletion.Policy
	}
	return report.Background
}
