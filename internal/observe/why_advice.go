package observe

import (
	"regexp"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// managedAdvice lists what can be done about an object by its own message, which for a managed resource is the one of its provider.
func managedAdvice(n Node) []string {
	if n.paused {
		return []string{resumeAdvice(n.object())}
	}
	if advice := syncAdvice(n); advice != nil {
		return advice
	}
	switch {
	case !n.isManaged && strings.HasSuffix(n.Message, health.NotReconciled):
		return []string{"wait: the controllers have not reconciled it yet; if that lasts, see whether they run and whether they lack permissions: espalier doctor"}
	case n.isManaged && unobserved.MatchString(n.Message):
		return []string{"wait: its provider has not observed the last change yet; if that lasts, see whether the provider runs: espalier doctor"}
	case n.Message == unseen:
		return []string{
			"wait; if that lasts, the cluster has no controller for " + n.Kind + "s: that of 'espalier up' has none for workloads. Apply it to a cluster that has",
		}
	case isUnserved(n.Message):
		return []string{"serve it in one of the ways that the message names, or delete it"}
	}
	return []string{"see its events: kubectl describe " + arguments(n.object())}
}

// syncAdvice lists what can be done about a managed resource that is not synced; none if neither the reason nor the message tells.
func syncAdvice(n Node) []string {
	if !n.isManaged {
		return nil
	}
	edit := "kubectl edit " + arguments(n.object())
	if config := missingConfig.FindStringSubmatch(n.Message); config != nil {
		return []string{"create " + config[1] + ", or name another one in spec.providerConfigRef"}
	}
	if secret := missingSecret.FindStringSubmatch(n.Message); secret != nil {
		return []string{"create Secret " + secret[2] + ", or name another one in " + secret[1]}
	}
	if ref := missingReference.FindStringSubmatch(n.Message); ref != nil {
		if ref[3] != "does not exist" {
			return []string{"see why it has none: " + espalierCommand("why", referenced(ref[2])), "or let " + ref[1] + " refer to another one: " + edit}
		}
		return []string{"create " + ref[2] + ", or let " + ref[1] + " refer to another one: " + edit}
	}
	if unreachable.MatchString(n.Message) {
		return []string{"have the endpoint answer, or correct the address in the object that spec.providerConfigRef names: kubectl get " + arguments(n.object()) + " -o yaml"}
	}
	if n.unsynced == nil {
		return nil
	}
	switch n.unsynced.Reason {
	case resource.NotAllowed:
		return []string{"do what the message says, here or in the object that it names: " + edit}
	case resource.NameReserved:
		if strings.Contains(n.unsynced.Message, "delete the Binding") {
			return []string{"find out whether the external resource still exists; then delete the Binding: kubectl get bindings.espalier.dev -A"}
		}
		return []string{"give one of the two objects another external name, or delete one of them: " + edit}
	case resource.NameDeleting:
		return []string{"wait: it is created once the name is free"}
	case resource.Conflict, resource.CreateUnresolved, resource.Disagreement:
		return []string{"do what the message says: " + edit}
	}
	return nil
}

// referenced returns the object that the message of a reference names, as KIND NAMESPACE/NAME or KIND NAME.
func referenced(text string) report.Object {
	kind, name, _ := strings.Cut(text, " ")
	o := report.Object{Kind: kind, Name: strings.TrimPrefix(name, "/")}
	if namespace, rest, ok := strings.Cut(o.Name, "/"); ok {
		o.Namespace, o.Name = namespace, rest
	}
	return o
}

// pipelineAdvice is what to do about a composite whose pipeline fails: the function, or what it is given, is wrong.
func pipelineAdvice(n Node) []string {
	function := failedFunction.FindStringSubmatch(n.Message)
	switch {
	case function == nil, strings.Contains(n.Message, "the function failed: "):
		return correctionAdvice(n)
	case isUnserved(n.Message):
		return append([]string{"serve the function in one of the ways that the message names"}, correctionAdvice(n)[0])
	}
	return []string{"see what serves the function, and whether it runs: kubectl describe function.pkg.crossplane.io " + diag.ShellWord(function[1])}
}

// isUnserved reports whether a message says that nothing serves a function, and how one is served.
func isUnserved(message string) bool {
	return strings.Contains(message, "Serve it as a program") || strings.Contains(message, "or serve it with --function")
}

// missingConfig matches what providers say of a managed resource without its configuration, of which it has the kind and name.
// missingSecret has the field that names a Secret, and the Secret. missingReference has a field, the object that it refers to, and what
// that lacks. unreachable matches errors of connections, unobserved what kstatus says of an older generation, and failedFunction the
// name of a function.
var (
	missingConfig    = regexp.MustCompile(`((?:Cluster)?ProviderConfig \S+) of spec\.providerConfigRef does not exist`)
	missingSecret    = regexp.MustCompile(`((?:(?:Cluster)?ProviderConfig \S+: )?spec\.\S+): the Secret (\S+) does not exist`)
	missingReference = regexp.MustCompile(`(spec\.forProvider\.\S+): (\S+ \S+) (does not exist|has no identity yet)`)
	unreachable      = regexp.MustCompile(`connection refused|no such host|i/o timeout|no route to host`)
	unobserved       = regexp.MustCompile(`generation is \d+, but latest observed generation is \d+$`)
	failedFunction   = regexp.MustCompile(`^(?:[^:]+: )?cannot compose resources: step ".*?" \(function ([^)]+)\): `)
)
