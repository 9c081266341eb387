package observe

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// AdviceOn lists what a person can do about an object that is not gone; each entry is enough
// on its own.
func AdviceOn(h report.BlockedObject) []string {
	if h.InProgress && h.Reason == report.ExternalDeletion && !strings.Contains(h.Message, ": ") { // no condition mentions the deletion
		return []string{"wait: the provider has not reported the deletion yet; if that lasts, see whether the provider runs: espalier doctor"}
	}
	if h.InProgress {
		return []string{"nothing to do: the provider is deleting the external resource and reports no problem"}
	}
	switch h.Reason {
	case report.HeldByFinalizer:
		return finalizersAdvice(h)
	case report.DeniedByWebhook:
		return []string{"the webhook or policy that denies the deletion must allow it; the deletion is retried"}
	case report.WebhookUnavailable:
		return []string{"make the webhook answer, or delete its configuration if nothing serves it any more"}
	case report.Forbidden:
		return []string{"grant the controllers the missing permission"}
	case report.Protected:
		if strings.HasPrefix(h.Message, "in use") {
			return []string{"to allow its deletion, delete the usage that the message names, or the object that uses it"}
		}
		return []string{fmt.Sprintf("to allow its deletion: %s %s-", kubectlAnnotate(h.Object), v1alpha1.ProtectAnnotation)}
	case report.ExternalDeletion:
		if _, why, isPaused := strings.Cut(h.Message, ": "+resource.ReconcilePaused); isPaused {
			return []string{resumeManagedAdvice(h.Object, why)}
		}
		return []string{"the provider must delete the external resource; see its status: " + espalierCommand("tree", h.Object)}
	case report.KindUnavailable:
		return []string{"serve a version of the kind again, or delete its CustomResourceDefinition"}
	case report.OutOfReach:
		return []string{"the API server that serves the kind must answer"}
	case report.ChildBlocked:
		return []string{"see what blocks it: " + espalierCommand("blockers", h.Object)}
	default:
		return nil
	}
}

// finalizersAdvice lists what can be done about the finalizers of an object. That of its external resource needs nothing but
// the provider, which waits for the others.
func finalizersAdvice(h report.BlockedObject) []string {
	if len(h.Finalizers) == 0 {
		return []string{"the controllers that set its finalizers must remove them"}
	}
	var out []string
	for _, f := range h.Finalizers {
		switch f.Name {
		case report.ExternalFinalizer:
		case resource.ConfigFinalizer:
			out = append(out, "delete the managed resources that use it, or have them refer to another configuration; see them: kubectl describe "+arguments(h.Object))
		default:
			out = append(out, finalizerAdvice(f))
		}
	}
	if h.HasExternalResource() && len(out) > 0 {
		out[len(out)-1] += "; the provider waits for that"
	}
	return out
}

// finalizerAdvice names the managers that must remove a finalizer.
func finalizerAdvice(f report.Finalizer) string {
	if len(f.Managers) == 0 {
		return "the controller that set finalizer " + f.Name + " must remove it"
	}
	if slices.ContainsFunc(f.Managers, isOwnManager) {
		return "Espalier's controllers set finalizer " + f.Name + " and must remove it; 'espalier doctor' reports whether they run and which permissions they lack"
	}
	return fmt.Sprintf("%s set finalizer %s and must remove it", inert(strings.Join(f.Managers, " or ")), f.Name)
}

// isOwnManager says whether a field manager is one of this program's controllers.
func isOwnManager(name string) bool {
	return strings.HasPrefix(name, "espalier.dev/") || name == v1alpha1.InstanceManager || name == v1alpha1.ChildManager
}

// forceDeleteAdvice is the command that lets the deletion of an instance finish without an
// object.
func forceDeleteAdvice(b report.Blocker, instance report.Object) string {
	name := b.Node
	switch {
	case name != "":
	case b.Object.Name == "":
		name = b.Object.Kind
	default:
		name = b.Object.Kind + "/" + b.Object.Name
	}
	left := "it"
	if b.RootCause().HasExternalResource() {
		left = "it and the external resource"
	}
	return fmt.Sprintf("to finish the deletion without it and leave %s behind: %s %s=%s", left, kubectlAnnotate(instance),
		v1alpha1.ForceDeleteAnnotation, diag.ShellWord(name))
}

// resumeAdvice is the command that ends the pause of an object by its annotation.
func resumeAdvice(o report.Object) string {
	return fmt.Sprintf("to resume it: %s %s-", kubectlAnnotate(o), resource.PausedAnnotation)
}

// resumeManagedAdvice is how the pause of a managed resource ends: its policies pause it if the message says so.
func resumeManagedAdvice(o report.Object, message string) string {
	if strings.Contains(message, "spec.managementPolicies") {
		return "to resume it, set spec.managementPolicies: to [\"*\"], or to others without Delete if the external resource is to stay: kubectl edit " + arguments(o)
	}
	return resumeAdvice(o)
}

func kubectlAnnotate(o report.Object) string {
	return "kubectl annotate " + arguments(o)
}

func espalierCommand(verb string, o report.Object) string {
	return "espalier " + verb + " " + arguments(o)
}

// Arguments returns the arguments that name an object for kubectl and for espalier, such
// as "vpc.kro.run main -n prod".
func Arguments(o *unstructured.Unstructured) string { return arguments(report.ObjectOf(o)) }

// ArgumentsOf returns the arguments that name an object for kubectl and for espalier.
func ArgumentsOf(o report.Object) string { return arguments(o) }

func arguments(o report.Object) string {
	kind, name := strings.ToLower(o.Key().GroupKind().String()), o.Name
	if strings.HasPrefix(name, "-") {
		kind, name = "", kind+"/"+name // as a word of its own it would be an option
	}
	text := strings.TrimPrefix(kind+" "+diag.ShellWord(name), " ")
	if o.Namespace != "" {
		text += " -n " + o.Namespace
	}
	return text
}

// programs are those whose commands are advised.
var programs = []string{"kubectl ", "espalier "}

// SplitCommand splits the command off an advice that ends in one: "see its events: kubectl describe …".
func SplitCommand(advice string) (text, command string) {
	at := len(advice)
	for _, program := range programs {
		if i := strings.Index(advice, ": "+program); i >= 0 {
			at = min(at, i)
		}
	}
	return advice[:at], strings.TrimPrefix(advice[at:], ": ")
}

// inert returns a text of somebody else, such as the name of a field manager, as it is written before
// a command: what looks like a command in it is escaped, so that SplitCommand does not find it.
func inert(text string) string {
	for _, program := range programs {
		text = strings.ReplaceAll(text, ": "+program, `:\x20`+program)
	}
	return text
}
