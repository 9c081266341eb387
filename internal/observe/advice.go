package observe

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// advice is what can be done about something that isn't going.
func advice(h report.Hold) []string {
	if h.InProgress {
		return []string{"nothing; its provider is deleting what it stands for, and reports no problem"}
	}
	switch h.Reason {
	case report.HeldByFinalizer:
		if len(h.Finalizers) == 0 {
			return []string{"whoever put its finalizers on has to take them off"}
		}
		var out []string
		for _, f := range h.Finalizers {
			out = append(out, takeOff(f))
		}
		return out
	case report.DeniedByWebhook:
		return []string{"the webhook or policy that refuses it has to allow it; it is asked again by and by"}
	case report.WebhookUnavailable:
		return []string{"the webhook has to answer, or its configuration to be deleted if nothing serves it any more"}
	case report.Forbidden:
		return []string{"allow the controllers what they may not do"}
	case report.Protected:
		return []string{fmt.Sprintf("to let it go: %s %s-", annotate(h.Object), v1alpha1.ProtectAnnotation)}
	case report.ExternalDeletion:
		return []string{"its provider has to end what it stands for; its status says more: " + inspect("tree", h.Object)}
	case report.KindUnavailable:
		return []string{"serve a version of the kind again, or delete its CustomResourceDefinition"}
	case report.OutOfReach:
		return []string{"the server that serves the kind has to answer"}
	case report.ChildBlocked:
		return []string{"see what holds it up: " + inspect("blockers", h.Object)}
	default:
		return nil
	}
}

// takeOff says who has to take a finalizer off.
func takeOff(f report.Finalizer) string {
	if len(f.Managers) == 0 {
		return "whoever put " + f.Name + " on has to take it off"
	}
	return fmt.Sprintf("%s put %s on and has to take it off", strings.Join(f.Managers, " or "), f.Name)
}

// letGo says how an instance is made to go on without an object.
func letGo(b report.Blocker, instance report.Object) string {
	name := b.Node
	switch {
	case name != "":
	case b.Object.Name == "":
		name = b.Object.Kind
	default:
		name = b.Object.Kind + "/" + b.Object.Name
	}
	return fmt.Sprintf("to go on without it, and leave it behind: %s %s=%s", annotate(instance), v1alpha1.ForceDeleteAnnotation, name)
}

func annotate(o report.Object) string {
	return "kubectl annotate " + arguments(o)
}

func inspect(call string, o report.Object) string {
	return "espalier " + call + " " + arguments(o)
}

// Arguments name an object on the command line, for kubectl and for us.
func Arguments(o *unstructured.Unstructured) string { return arguments(report.ObjectOf(o)) }

func arguments(o report.Object) string {
	text := strings.ToLower(o.Key().GroupKind().String()) + " " + o.Name
	if o.Namespace != "" {
		text += " -n " + o.Namespace
	}
	return text
}
