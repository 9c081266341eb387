package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// Import restores one export to an API server. It may be repeated, and goes on where
// it was.
type Import struct {
	*Cluster
	File archive.File
	// Holder names this very call, so that of two one stops.
	Holder string
	// Patience is for how long kinds are waited for that definitions define.
	Patience time.Duration
	// Say is told how far it is.
	Say func(format string, args ...any)

	hold    *unstructured.Unstructured
	checked time.Time
	// incarnations are the managed resources that are there.
	incarnations map[object.Key]types.UID
}

// ProblemsError is all that is in the way of an import, of which nothing was written.
type ProblemsError struct{ Problems []string }

func (p *ProblemsError) Error() string {
	return "nothing was written, for\n  " + strings.Join(p.Problems, "\n  ")
}

// Run restores the export: it puts up a Hold, writes what isn't there, and takes the
// Hold away when all is. A call that dies in between leaves the Hold, and is gone on
// with by the next.
func (i *Import) Run(ctx context.Context) error {
	i.incarnations = map[object.Key]types.UID{}
	s, err := i.survey(ctx)
	if err != nil {
		return err
	}
	if len(s.problems) > 0 {
		return &ProblemsError{s.problems}
	}
	if s.missing() == 0 && s.hold == nil {
		i.Say("everything is there already")
		return nil
	}
	if err := i.acquireHold(ctx); err != nil {
		return err
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
			i.Say("%d %s are there", n, section)
		}
	}
	if err := i.deleteAllAgain(ctx, archive.Usages); err != nil {
		return err
	}
	if err := i.release(ctx); err != nil {
		return err
	}
	i.Say("the controllers go on")
	return nil
}

// prepare does what has to be done before a section is restored.
func (i *Import) prepare(ctx context.Context, section archive.Section) error {
	switch section {
	case archive.Managed, archive.Instances:
		return i.awaitKinds(ctx, i.File.Sections[section])
	case archive.Usages: // they would keep what is in use
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

// Plan is what Run would do, for people, or what is in its way.
func (i *Import) Plan(ctx context.Context) ([]string, error) {
	i.incarnations = map[object.Key]types.UID{}
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
