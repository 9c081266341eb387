package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// Import imports one export into an API server that has none of its objects. One that failed is aborted, and repeated.
type Import struct {
	*Cluster
	File archive.File
	// AllowedAccounts are the accounts that revisions may have, although their definitions in
	// File do not name them, as archive.Account.String writes them.
	AllowedAccounts []string
	// Holder identifies this process; an import stops when another process aborts it.
	Holder string
	// Patience is how long to wait until the kinds of definitions are served.
	Patience time.Duration
	// Progress is called with messages about the progress; it is required.
	Progress func(format string, args ...any)
	// Done is called with each step that Run has carried out; optional.
	Done func(Step)

	hold    *unstructured.Unstructured
	checked time.Time
	// uids contains the UIDs of the objects that this import has created.
	uids map[object.Key]types.UID
	// sets contains the exported instances by the id of their ApplySet, and keys are those of this
	// installation: see sign.
	sets map[string]object.Key
	keys inventory.Keys
	// inArchive contains the archive's managed resources.
	inArchive map[object.Key]bool
}

// ProblemsError lists all problems that prevent an import. Nothing was written.
type ProblemsError struct{ Problems []string }

func (p *ProblemsError) Error() string {
	var text strings.Builder
	text.WriteString("nothing was written; problems:")
	for _, problem := range p.Problems {
		text.WriteString("\n  " + printable(problem))
	}
	return text.String()
}

// heldAdvice says what to do about an import that has not ended.
const heldAdvice = "the Hold still suspends the controllers: run the import with --abort, which deletes what it has created, and then again"

// stillHeld adds to the error of a run that its Hold stays.
func stillHeld(err error) error {
	var kinds *KindsError
	if err == nil || errors.Is(err, ErrTakenOver) || errors.As(err, &kinds) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, heldAdvice)
}

// ErrChanged is returned if an object has appeared since the plan was made.
var ErrChanged = errors.New("another client has created it meanwhile")

// Run imports the export: it creates a Hold, carries out the steps of the plan, and deletes the
// Hold at the end. If it fails in between, the Hold stays until Abort.
func (i *Import) Run(ctx context.Context) error {
	steps, err := i.Plan(ctx)
	if err != nil {
		return err
	}
	if err := i.createHold(ctx); err != nil {
		return err
	}
	return stillHeld(i.carryOutAll(ctx, steps))
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
		if i.Done != nil {
			i.Done(step)
		}
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

// carryOut carries out a step, and returns what was done: a namespace that exists by now is kept.
func (i *Import) carryOut(ctx context.Context, step Step) (Step, error) {
	if err := i.checkHold(ctx); err != nil {
		return step, err
	}
	var err error
	switch step.Verb {
	case Keep:
	case Delete:
		err = i.deleteAgain(ctx, step.object)
	case Create:
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
		return errors.New(printable(strings.Join(refused, "; ")))
	}
	return nil
}

// Plan returns what Run would do, or a ProblemsError. It tells Progress whose permissions the plan gives.
func (i *Import) Plan(ctx context.Context) ([]Step, error) {
	i.uids = map[object.Key]types.UID{}
	s, err := i.survey(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.problems) > 0 {
		return nil, &ProblemsError{s.problems}
	}
	for _, a := range s.accounts {
		i.Progress("with the permissions of %s", a.Describe())
	}
	steps, counts := s.steps(), map[Verb]int{}
	for _, step := range steps {
		counts[step.Verb]++
	}
	text := diag.Counted(counts[Create], "object", "objects") + " to create"
	if n := counts[Delete]; n > 0 {
		text += fmt.Sprintf(", %d of them to delete again", n)
	}
	i.Progress("%s", text)
	if s.unchecked > 0 {
		i.Progress("the API server has not checked %s yet: the namespace or the kind does not exist", diag.Counted(s.unchecked, "object", "objects"))
	}
	return steps, nil
}
