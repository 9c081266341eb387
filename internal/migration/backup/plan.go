package backup

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// Verb is what a step of an import does about an object.
type Verb string

// Verbs.
const (
	// Create creates the object.
	Create Verb = "create"
	// Keep leaves a namespace alone that exists.
	Keep Verb = "keep"
	// Delete deletes an object that this import has created, because it was being deleted when it
	// was exported.
	Delete Verb = "delete"
)

// Step is one step of an import. A run carries out exactly the steps of the plan.
type Step struct {
	Verb Verb
	Key  object.Key
	// Detail says more about a Binding; empty for other objects.
	Detail string

	section archive.Section
	object  *unstructured.Unstructured
}

// String is the step as a line of a plan.
func (s Step) String() string {
	text := fmt.Sprintf("%-6s %s", s.Verb, s.Key)
	if s.Detail != "" {
		text += ", " + s.Detail
	}
	return printable(text)
}

// printable replaces control characters, which an archive may contain in texts that are shown.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// steps returns the steps of an import in their order. Objects that were being deleted are
// deleted before the usages, which would block that.
func (s *survey) steps() []Step {
	var out, deletions []Step
	for _, section := range archive.AllSections {
		if section == archive.Usages {
			out, deletions = append(out, deletions...), nil
		}
		for _, step := range s.findings {
			if step.section != section {
				continue
			}
			out = append(out, step)
			if _, deleting := archive.Deleting(step.object); deleting && step.Verb == Create {
				step.Verb, step.Detail = Delete, ""
				deletions = append(deletions, step)
			}
		}
	}
	return append(out, deletions...)
}

// detail describes what a Binding states about its managed resource.
func detail(section archive.Section, o *unstructured.Unstructured) string {
	if section != archive.Bindings {
		return ""
	}
	owner, _ := archive.Owner(o)
	text := fmt.Sprintf("of %s", owner)
	if ref, _, _ := unstructured.NestedString(o.Object, "spec", "ref"); ref != "" {
		text += fmt.Sprintf(", which is bound to the external resource %q", ref)
	}
	if archive.HasOperation(o) {
		verb, _, _ := unstructured.NestedString(o.Object, "spec", "operation", "verb")
		text += fmt.Sprintf(", with operation %q in flight, which is resolved by observation", verb)
	}
	return text
}

// tryCreate has the API server check the creation of an object, by a dry run, and reports a
// refusal as a problem. What it cannot check yet is counted: objects of a kind or a namespace
// that the import itself creates.
func (i *Import) tryCreate(ctx context.Context, s *survey, step Step) error {
	o := step.object
	if _, served := s.target[o.GroupVersionKind().GroupKind()]; !served || o.GetNamespace() != "" && !s.namespaces[o.GetNamespace()] {
		s.unchecked++
		return nil
	}
	wanted := archive.Imported(o, archive.HoldName(i.File.Header.ID)+"/dry-run")
	if step.section == archive.Bindings {
		wanted = archive.ForOwner(wanted, types.UID("00000000-0000-0000-0000-000000000000"))
	}
	r, err := i.objects(o.GroupVersionKind(), o.GetNamespace())
	if isUnserved(err) {
		s.unchecked++
		return nil
	}
	if err != nil {
		return err
	}
	answer, err := r.Create(ctx, wanted, metav1.CreateOptions{FieldManager: Manager, DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		if step.section == archive.Bindings && archive.HasOperation(wanted) && !archive.IsImportedOperation(answer) {
			s.problem("%s has an operation in flight, and the controllers of this cluster are too old to resolve it by observation: upgrade them first", step.Key)
		}
	case apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err), apierrors.IsMethodNotSupported(err), lacksDryRun(err), isTerminating(err):
		s.unchecked++
	case apierrors.IsAlreadyExists(err): // since the survey has read it
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		s.problem("%s: %s", step.Key, err)
	default:
		return fmt.Errorf("dry run of %s: %w", step.Key, err)
	}
	return nil
}

// isTerminating reports whether the CustomResourceDefinition of the kind is being deleted. Its
// definition, which is imported before, creates it again.
func isTerminating(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "custom resource definition is terminating")
}

// lacksDryRun reports whether an admission webhook without support for dry runs is configured
// for the object.
func lacksDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dry run")
}
