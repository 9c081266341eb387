package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Import imports one export into an API server. It can be repeated, and continues where it
// was interrupted.
type Import struct {
	*Cluster
	File archive.File
	// AllowedAccounts are the accounts that revisions may have, although their definitions in
	// File do not name them, as archive.Account.String writes them.
	AllowedAccounts []string
	// Holder identifies this process, so that the former of two stops.
	Holder string
	// Patience is how long to wait until the kinds of definitions are served.
	Patience time.Duration
	// Progress is called with messages about the progress; it is required.
	Progress func(format string, args ...any)
	// Done is called with each step that Run has carried out; optional.
	Done func(Step)

	hold    *unstructured.Unstructured
	checked time.Time
	// uids are the UIDs of existing objects.
	uids map[object.Key]types.UID
	// sets are the exported instances by the id of their ApplySet, and keys those of this
	// installation: see sign.
	sets map[string]object.Key
	keys inventory.Keys
	// own are the objects among them that this import has created.
	own map[object.Key]bool
	// inArchive are the archive's managed resources.
	inArchive map[object.Key]bool
}

// ProblemsError lists all problems that prevent an import. Nothing was written.
type ProblemsError struct {
	Problems []string
	// Held reports whether the Hold of an earlier run of the import exists.
	Held bool
}

func (p *ProblemsError) Error() string {
	var text strings.Builder
	text.WriteString("nothing was written; problems:")
	for _, problem := range p.Problems {
		text.WriteString("\n  " + printable(problem))
	}
	if p.Held {
		text.WriteString("\n" + heldAdvice)
	}
	return text.String()
}

// heldAdvice says what to do about an import that has not ended.
const heldAdvice = "the Hold still pauses the controllers: run the import again to continue, or with --abort to delete what it has created"

// heldError is an error that says itself what to do about the Hold.
type heldError struct{ error }

// stillHeld adds to the error of a run that its Hold stays.
func stillHeld(err error) error {
	var says heldError
	var problems *ProblemsError
	var kinds *KindsError
	if err == nil || errors.Is(err, ErrTakenOver) || errors.As(err, &says) || errors.As(err, &problems) || errors.As(err, &kinds) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, heldAdvice)
}

// ErrChanged is returned if an object has appeared since the plan was made.
var ErrChanged = errors.New("an object of the export was created by somebody else meanwhile; run the import again, which reports what is in the way")

// Run imports the export: it creates a Hold, carries out the steps of the plan, and deletes the
// Hold at the end. If the process dies in between, the Hold stays, and the next Run continues.
func (i *Import) Run(ctx context.Context) error {
	s, err := i.plan(ctx)
	if err != nil {
		return err
	}
	if s.isComplete() {
		i.Progress("all objects exist already")
		i.report(s.steps())
		return nil
	}
	begun, err := i.acquireHold(ctx)
	if err != nil {
		return err
	}
	if !begun.IsZero() {
		i.Progress("continuing the import that began at %s", begun.Format(time.RFC3339))
	}
	if s, err = i.planAgain(ctx); err != nil {
		if begun.IsZero() { // nothing has been done yet
			if problems := new(ProblemsError); errors.As(err, &problems) {
				problems.Held = false // its own Hold, which is released
			}
			return errors.Join(err, i.release(ctx))
		}
		return stillHeld(err)
	}
	return stillHeld(i.carryOutAll(ctx, s.steps()))
}

// carryOutAll carries out all steps, and deletes the Hold.
func (i *Import) carryOutAll(ctx context.Context, steps []Step) error {
	for n, step := range steps {
		if n == 0 || step.section != steps[n-1].section {
			if err := i.prepare(ctx, step.section); err != nil {
				return err
			}
		}
		step, err := i.carryOut(ctx, step)
		if err != nil {
			return err
		}
		i.report([]Step{step})
		if step.Verb != Delete && (n+1 == len(steps) || steps[n+1].section != step.section) {
			i.Progress("imported %s: %d", step.section, len(i.File.Sections[step.section]))
		}
	}
	if err := i.release(ctx); err != nil {
		return err
	}
	i.Progress("deleted the Hold; the controllers continue")
	return nil
}

func (i *Import) report(steps []Step) {
	if i.Done == nil {
		return
	}
	for _, step := range steps {
		i.Done(step)
	}
}

// carryOut carries out a step, and returns what was done: an object that somebody else has
// created since the plan was made is kept.
func (i *Import) carryOut(ctx context.Context, step Step) (Step, error) {
	if err := i.checkHold(ctx); err != nil {
		return step, err
	}
	var err error
	switch step.Verb {
	case Keep:
	case Delete:
		err = i.deleteAgain(ctx, step.object)
	case Renumber:
		err = i.renumber(ctx, step.object)
	case Create, Finish:
		var kept bool
		if kept, err = i.restore(ctx, step.section, step.object); kept {
			step.Verb = Keep
		}
	}
	if err != nil {
		return step, fmt.Errorf("%s: %w", step.Key, err)
	}
	return step, nil
}

// prepare does what a section requires before it is imported.
func (i *Import) prepare(ctx context.Context, section archive.Section) error {
	switch section {
	case archive.Managed, archive.Instances:
		if err := i.awaitKinds(ctx, i.File.Sections[section]); err != nil {
			return err
		}
		return i.checkServedKinds(ctx)
	default:
	}
	return nil
}

// checkServedKinds checks, once the definitions are served, that they serve the kinds of the
// objects that follow, and nothing else does.
func (i *Import) checkServedKinds(ctx context.Context) error {
	target, _, err := i.targetKinds(ctx)
	if err != nil {
		return err
	}
	if refused := i.File.Refusals(target); len(refused) > 0 {
		return heldError{errors.New(printable("the Hold still pauses the controllers; end the import with --abort. " + strings.Join(refused, "; ")))}
	}
	return nil
}

// Plan returns what Run would do, or a ProblemsError.
func (i *Import) Plan(ctx context.Context) ([]Step, error) {
	s, err := i.plan(ctx)
	if err != nil {
		return nil, err
	}
	return s.steps(), nil
}

// planAgain plans once more while this process has the Hold: another import of the same export may have
// got further since the first plan, or have ended.
func (i *Import) planAgain(ctx context.Context) (*survey, error) {
	progress := i.Progress
	defer func() { i.Progress = progress }()
	i.Progress = func(string, ...any) {} // it has been said
	return i.plan(ctx)
}

// plan surveys the cluster, and says what the plan gives to whom.
func (i *Import) plan(ctx context.Context) (*survey, error) {
	i.uids, i.own = map[object.Key]types.UID{}, map[object.Key]bool{}
	s, err := i.survey(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.problems) > 0 {
		return nil, &ProblemsError{Problems: s.problems, Held: s.hold != nil}
	}
	for _, a := range s.accounts {
		i.Progress("with the permissions of %s", a.Describe())
	}
	counts := map[Verb]int{}
	for _, step := range s.steps() {
		counts[step.Verb]++
	}
	var further strings.Builder
	for _, c := range []struct {
		verb Verb
		what string
	}{{Finish, "to finish"}, {Renumber, "to renumber"}, {Delete, "to delete again"}} {
		if counts[c.verb] > 0 {
			fmt.Fprintf(&further, ", %d %s", counts[c.verb], c.what)
		}
	}
	i.Progress("%s to create%s, %s already with the same content", diag.Counted(counts[Create], "object", "objects"), further.String(),
		diag.Counted(counts[Keep], "exists", "exist"))
	if s.unchecked > 0 {
		i.Progress("the API server has not checked %s yet: the namespace or the kind does not exist", diag.Counted(s.unchecked, "object", "objects"))
	}
	return s, nil
}
