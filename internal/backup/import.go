package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Import imports one export into an API server. It can be repeated, and continues where it
// was interrupted.
type Import struct {
	*Cluster
	File archive.File
	// Holder identifies this process, so that the former of two stops.
	Holder string
	// Patience is how long to wait until the kinds of definitions are served.
	Patience time.Duration
	// Progress is called with messages about the progress; it is required.
	Progress func(format string, args ...any)

	hold    *unstructured.Unstructured
	checked time.Time
	// uids are the UIDs of existing objects.
	uids map[object.Key]types.UID
	// sets are the exported instances by the id of their ApplySet, and keys those of this
	// installation: see sign.
	sets map[string]object.Key
	keys inventory.Keys
}

// ProblemsError lists all problems that prevent an import. Nothing was written.
type ProblemsError struct{ Problems []string }

func (p *ProblemsError) Error() string {
	return "nothing was written; problems:\n  " + strings.Join(p.Problems, "\n  ")
}

// Run imports the export: it creates a Hold, creates the objects that do not exist, and deletes
// the Hold at the end. If the process dies in between, the Hold stays, and the next Run
// continues.
func (i *Import) Run(ctx context.Context) error {
	i.uids = map[object.Key]types.UID{}
	s, err := i.survey(ctx)
	if err != nil {
		return err
	}
	if len(s.problems) > 0 {
		return &ProblemsError{s.problems}
	}
	if s.missing() == 0 && s.hold == nil {
		i.Progress("all objects exist already")
		return nil
	}
	begun, err := i.acquireHold(ctx)
	if err != nil {
		return err
	}
	if !begun.IsZero() {
		i.Progress("continuing the import that began at %s", begun.Format(time.RFC3339))
	}
	for _, section := range archive.AllSections {
		if err := i.prepare(ctx, section); err != nil {
			return err
		}
		for _, o := range i.File.Sections[section] {
			if err := i.restore(ctx, section, o); err != nil {
				return err
			}
		}
		if n := len(i.File.Sections[section]); n > 0 {
			i.Progress("%d %s imported", n, section)
		}
	}
	if err := i.deleteAllAgain(ctx, archive.Usages); err != nil {
		return err
	}
	if err := i.release(ctx); err != nil {
		return err
	}
	i.Progress("deleted the Hold; the controllers continue")
	return nil
}

// prepare does what a section requires before it is imported.
func (i *Import) prepare(ctx context.Context, section archive.Section) error {
	switch section {
	case archive.Managed, archive.Instances:
		return i.awaitKinds(ctx, i.File.Sections[section])
	case archive.Usages: // usages would block these deletions
		for _, before := range archive.AllSections {
			if before == section {
				break
			}
			if err := i.deleteAllAgain(ctx, before); err != nil {
				return err
			}
		}
	default:
	}
	return nil
}

func (i *Import) deleteAllAgain(ctx context.Context, section archive.Section) error {
	for _, o := range i.File.Sections[section] {
		if err := i.deleteAgain(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Plan returns what Run would do, one line per object, or a ProblemsError.
func (i *Import) Plan(ctx context.Context) ([]string, error) {
	i.uids = map[object.Key]types.UID{}
	s, err := i.survey(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.problems) > 0 {
		return nil, &ProblemsError{s.problems}
	}
	var out []string
	for _, f := range s.findings {
		out = append(out, fmt.Sprintf("%-6s %s", f.verb, object.KeyOf(f.object)))
	}
	return out, nil
}
