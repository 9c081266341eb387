package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkg "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// name is the node's object or, without one, its id and the instance that it belongs to.
func (c cause) name() string {
	if c.node.Exists && c.node.Name != "" {
		return c.node.object().String()
	}
	return c.node.ID() + " of " + c.parent.object().String()
}

// sentence is the cause in one sentence.
func (c cause) sentence(now time.Time) string {
	n := c.node
	switch {
	case c.blocker != nil:
		return notGone(c.blocker.BlockedObject)
	case n.Problem != nil && n.Problem.Contested != nil:
		return n.Problem.Contested.sentence(c.name(), n.Problem.Since, now)
	case n.Problem != nil:
		return fmt.Sprintf("%s: %s: %s", c.name(), n.Problem.Reason, n.Problem.Message)
	case len(n.Waits) > 0 && c.ready != nil && n.Waits[0].Reason == string(plan.WaitingForField):
		return fmt.Sprintf("%s waits for %s, which %s does not have, although it is ready", c.name(), waitTargets(n.Waits), c.ready.object())
	case len(n.Waits) > 0:
		return fmt.Sprintf("%s waits for %s", c.name(), waitTargets(n.Waits))
	case n.Removal != nil && n.Deleted == nil:
		return notGone(n.Removal.BlockedObject)
	case n.Deleted != nil && n.paused && n.Deletion == nil:
		return c.name() + " is paused: nothing is deleted until it is resumed"
	case n.remaining != "":
		return c.name() + " is being deleted: " + n.remaining
	case n.Deleted != nil:
		text := c.name() + " is being deleted, and nothing is known to block that"
		if progress := n.Deletion; progress != nil {
			text = fmt.Sprintf("%s is being deleted: %d of %s removed, and nothing is known to block the rest", c.name(), progress.Removed,
				diag.Counted(int(progress.Total), "object is", "objects are"))
		}
		return text
	}
	text := c.name() + " is not ready"
	if problems := n.problems(); len(problems) > 0 {
		return fmt.Sprintf("%s: %s: %s", text, n.Reason, listOf(problems))
	}
	for _, part := range []string{n.Reason, n.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	if n.Reason == "" && n.Message == "" {
		text += ", and does not say why"
	}
	return text
}

// notGone says why an object, or the objects of a kind, still exist.
func notGone(o report.BlockedObject) string {
	verb := "is"
	if o.Object.Name == "" {
		verb = "are"
	}
	return fmt.Sprintf("%s %s not gone: %s", o.Object, verb, cmp.Or(o.Message, string(o.Reason)))
}

// advice lists what can be done about the cause.
func (c cause) advice() []string {
	n, reason := c.node, plan.Reason(c.reason())
	switch {
	case c.blocker != nil:
		return c.blocker.Advice
	case n.Removal != nil && n.Deleted == nil:
		return AdviceOn(n.Removal.RootCause())
	case n.Problem != nil && n.Problem.Contested != nil:
		return n.Problem.Contested.advice(n.object(), n.Node)
	case n.remaining != "" && slices.Contains(n.Finalizers, pkg.Finalizer):
		return nil // the message of a package says it
	case n.remaining != "":
		return []string{
			"see the instances: " + espalierCommand("tree", n.object()),
			fmt.Sprintf("to delete the definition and leave them behind: %s %s=true", kubectlAnnotate(n.object()), v1alpha1.AllowOrphansAnnotation),
		}
	case n.paused && n.Problem == nil && len(n.Waits) == 0:
		return []string{resumeAdvice(n.object())}
	}
	instance := c.parent
	if n.Instance || c.parent.Kind == "" {
		instance = n
	}
	if n.composeFailed {
		return pipelineAdvice(n)
	}
	switch reason {
	case plan.Rejected, plan.EvaluationFailed, plan.ResolutionFailed, plan.TooManyItems, plan.DuplicateItems:
		return correctionAdvice(instance)
	case plan.Forbidden:
		return []string{grantAdvice(instance)}
	case plan.NotOwned:
		return []string{"delete or rename that object, or let the definition take it over with adopt"}
	case plan.NotReady:
		if n.Problem != nil { // by its own status it is ready
			return append([]string{"see what its fields are: kubectl get " + arguments(n.object()) + " -o yaml"}, correctionAdvice(instance)[0])
		}
	case plan.DriftContested, plan.FieldConflict:
		return []string{"have one of the two managers stop writing the field, or set the node's drift or conflicts in the definition"}
	case plan.WaitingForKind:
		return []string{kindAdvice(n)}
	case plan.WaitingForNamespace:
		return []string{"create the namespace"}
	case plan.ServiceAccountNotFound:
		return []string{"create the service account"}
	case plan.WaitingForField, plan.WaitTimeout:
		if c.ready != nil {
			return []string{"see what sets the field: kubectl describe " + arguments(c.ready.object())}
		}
	default:
	}
	if n.isInvalid() {
		return []string{"correct these fields and apply the " + nounOf(n.definition) + " again", "to see file, line and column: espalier validate -f FILE"}
	}
	if serving := n.servingAdvice(); serving != nil {
		return serving
	}
	if n.Exists && n.Name != "" && len(n.Waits) == 0 && n.Problem == nil {
		return managedAdvice(n)
	}
	return nil
}

// kindAdvice says how a kind is installed. Those of AWS are served once their type is activated.
func kindAdvice(n Node) string {
	const aws = ".aws.espalier.dev/"
	if strings.Contains(n.APIVersion, aws) || n.Problem != nil && strings.Contains(n.Problem.Message, aws) {
		return "activate the resource type of the kind: espalier aws activate TYPE; 'espalier aws types' lists the types with their kinds"
	}
	return "install what serves the kind"
}

// correctionAdvice is what to do about a child that the API server rejects, or that cannot be computed: the fault is in the definition,
// or in what the instance sets.
func correctionAdvice(instance Node) []string {
	edit := "kubectl edit " + arguments(instance.object())
	if instance.definition.Name == "" {
		return []string{"correct the instance or its definition: " + edit}
	}
	return []string{
		fmt.Sprintf("if the %s is wrong: kubectl edit %s", nounOf(instance.definition), arguments(instance.definition)),
		"if what the instance sets is wrong: " + edit,
	}
}

// grantAdvice says how the permission comes that an instance or a definition lacks: 'espalier rbac' knows graph definitions only.
func grantAdvice(of Node) string {
	if of.definition.Kind == "Composition" || of.Kind == apiextensions.DefinitionKind {
		return `grant the controllers the missing permission, for example by a ClusterRole with the label ` + rbac.AggregateToControllersLabel + `: "true"`
	}
	return "grant the missing permission; 'espalier rbac' prints the roles that a definition needs"
}

func nounOf(definition report.Object) string {
	if definition.Kind == "Composition" {
		return "composition"
	}
	return "definition"
}

// Text is the explanation for people. With a width other than 0, texts are wrapped; commands are not, and have lines of their own, so
// that they can be copied.
func (e Explanation) Text(now time.Time, width int) string {
	t := explanationText{now: now, width: width}
	t.paragraph("", e.Cause)
	t.chain(e.Chain)
	t.advice("\nWhat to do:\n", "  - ", e.Advice)
	for i, o := range e.Others {
		if i == 0 {
			t.b.WriteString("\nOther problems:\n")
		}
		t.paragraph("  ", o.Cause)
		t.advice("", "    - ", o.Advice)
	}
	for i, o := range e.Contested {
		if i == 0 {
			t.b.WriteString("\nUpdated again and again:\n")
		}
		t.paragraph("  ", o.Cause)
		t.advice("", "    - ", o.Advice)
	}
	for i, o := range e.Unsynced {
		if i == 0 {
			t.b.WriteString("\nReady, but not synced:\n")
		}
		t.paragraph("  ", o.Cause)
		t.advice("", "    - ", o.Advice)
	}
	for i, s := range e.Skipped {
		if i == 0 {
			t.b.WriteString("\nLeft out:\n")
		}
		t.paragraph("  ", fmt.Sprintf("%s of %s: %s", s.Node, s.Instance, s.Because))
	}
	if e.Revision != nil {
		t.revision(e.Revision)
	}
	return t.b.String()
}

// revision writes which revision composes the instance, and why.
func (t *explanationText) revision(r *Revision) {
	t.b.WriteString("\n")
	t.paragraph("", r.title())
	for _, sentence := range r.Because {
		t.paragraph("  ", sentence)
	}
	t.advice("", "  - ", r.Moves)
	if len(r.Ignored) > 0 {
		t.b.WriteString("\nWithout effect:\n")
	}
	for _, sentence := range r.Ignored {
		t.paragraph("  ", sentence)
	}
}

type explanationText struct {
	b     strings.Builder
	now   time.Time
	width int
}

// paragraph writes a text, wrapped; its further lines are indented more. Of a list of problems, each begins on a line.
func (t *explanationText) paragraph(indent, text string) {
	first, problems, _ := strings.Cut(text, "\n")
	diag.Wrap(&t.b, indent, indent+"  ", strings.Fields(Printable(first)), t.width)
	for line := range strings.Lines(problems) {
		diag.Wrap(&t.b, indent+"  ", indent+"    ", strings.Fields(Printable(line)), t.width)
	}
}

func (t *explanationText) advice(title, bullet string, all []string) {
	if len(all) > 0 {
		t.b.WriteString(title)
	}
	for _, text := range all {
		diag.WrapAdvice(&t.b, bullet, Printable(text), t.width)
	}
}

// chain writes the way to the cause, if it is not the object itself. Its last link is truncated: the sentence above has all of it.
func (t *explanationText) chain(links []Link) {
	if len(links) < 2 {
		return
	}
	t.b.WriteString("\n")
	for i, l := range links {
		indent := ""
		if i > 0 {
			indent = strings.Repeat("   ", i-1) + "└─ "
		}
		text := Printable(l.text(t.now))
		if t.width <= 0 || i < len(links)-1 {
			diag.WrapHanging(&t.b, indent, strings.Fields(text), t.width)
			continue
		}
		t.b.WriteString(indent + Truncate(text, max(t.width-utf8.RuneCountInString(indent), 1)) + "\n")
	}
}

// text is the link on one line.
func (l Link) text(now time.Time) string {
	name := l.Node
	if l.Object != nil {
		name = l.Object.String()
	}
	text := name
	text = strings.TrimSpace(text + " " + l.Reason)
	var times []string
	if l.Since != nil {
		times = append(times, "for "+Age(now.Sub(*l.Since)))
	}
	if l.Attempts > 0 {
		noun := "attempts"
		if l.Attempts == 1 {
			noun = "attempt"
		}
		times = append(times, fmt.Sprintf("%d %s", l.Attempts, noun))
	}
	if l.Next != nil {
		times = append(times, "next in "+Age(l.Next.Sub(now)))
	}
	if len(times) > 0 {
		text += " (" + strings.Join(times, ", ") + ")"
	}
	if l.Message != "" {
		text += ": " + l.Message
	}
	return text
}
