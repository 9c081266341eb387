package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

func (e *examination) versions() {
	for _, c := range e.Controllers {
		if c.Version != "" && e.Program != "" && strings.TrimPrefix(c.Version, "v") != strings.TrimPrefix(e.Program, "v") {
			e.add(Warning, "versions", &Object{Group: "apps", Kind: "Deployment", Namespace: c.Namespace, Name: c.Name},
				"use the program of that version, or upgrade: espalier install --image IMAGE | kubectl apply --server-side -f -",
				"the controllers have version %s, and this program has %s", c.Version, e.Program)
		}
	}
	e.fine("versions", "Kubernetes %s, Espalier %s", e.Server, e.Program)
}

// expiredAfter is how long after its duration a lease still counts as renewed: clocks differ.
const expiredAfter = 30 * time.Second

func (e *examination) controllers() {
	running := 0
	for _, c := range e.Controllers {
		e.replicas("controllers", "controllers", c)
		if c.Ready > 0 {
			running++
		}
	}
	for _, l := range e.Leases {
		if late, expired := e.expired(l); expired {
			e.add(Problem, "controllers", leaseObject(l), "start the controllers: espalier run, or see why their pods do not run",
				"no controllers have renewed it for %s; the last ones were %s", late, l.Holder)
		} else if l.Holder != "" {
			running++
		}
	}
	if running == 0 && len(e.Controllers)+len(e.Leases) == 0 && !e.lacks("controllers") {
		start := "unless espalier up runs them: espalier install --image IMAGE | kubectl apply --server-side -f -, or espalier run"
		if e.NoNodes {
			start = "run espalier up or espalier run: the cluster has no nodes for pods of the controllers"
		}
		e.add(Warning, "controllers", nil, start, "neither a Deployment nor a lease of the controllers was found; they might run without leader election")
	}
	for _, h := range e.Holds {
		e.add(Warning, "controllers", &Object{Group: espalier.GroupVersion.Group, Kind: "Hold", Name: h.Name},
			"once its purpose is done: kubectl delete hold "+h.Name, "nothing is reconciled and no deletion goes on while it exists: %s",
			cmp.Or(h.Reason, "no reason given"))
	}
	e.fine("controllers", "they run")
}

// providers examines the providers that run by themselves: without them, managed resources keep the status that they had.
func (e *examination) providers() {
	if len(e.Providers)+len(e.ProviderLeases) == 0 && !e.lacks("providers") {
		return
	}
	for _, p := range e.Providers {
		e.replicas("providers", strings.TrimPrefix(p.Name, "espalier-"), p)
	}
	for _, l := range e.ProviderLeases {
		if late, expired := e.expired(l); expired {
			provider, _, _ := strings.Cut(l.Name, ".")
			e.add(Problem, "providers", leaseObject(l), fmt.Sprintf("start the provider: espalier provider run %s, or see why its pods do not run", provider),
				"no provider has renewed it for %s, so its managed resources are not reconciled; the last one was %s", late, l.Holder)
		}
	}
	e.fine("providers", "they run")
}

// replicas examines the replicas of a Deployment, whose pods have the label of the component.
func (e *examination) replicas(check, component string, c Controller) {
	o := &Object{Group: "apps", Kind: "Deployment", Namespace: c.Namespace, Name: c.Name}
	describe := fmt.Sprintf("kubectl describe pods -n %s -l app.kubernetes.io/component=%s", c.Namespace, component)
	switch {
	case c.Wanted == 0:
		e.add(Problem, check, o, fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=2", c.Name, c.Namespace), "it has no replicas")
	case c.Ready == 0:
		e.add(Problem, check, o, describe, "%d of %s ready", c.Ready, diag.Counted(int(c.Wanted), "replica is", "replicas are"))
	case c.Ready < c.Wanted:
		e.add(Warning, check, o, describe, "%d of %s ready", c.Ready, diag.Counted(int(c.Wanted), "replica is", "replicas are"))
	}
}

func leaseObject(l Lease) *Object {
	return &Object{Group: "coordination.k8s.io", Kind: "Lease", Namespace: l.Namespace, Name: l.Name}
}

// expired reports whether the holder of a lease has stopped renewing it, and for how long.
func (e *examination) expired(l Lease) (time.Duration, bool) {
	late := e.Now.Sub(l.Renewed)
	return late.Round(time.Second), l.Holder != "" && late > l.Duration+expiredAfter
}

// maxNamedPermissions bounds the permissions that a message names.
const maxNamedPermissions = 5

func (e *examination) rights() {
	for _, r := range e.Rights {
		if len(r.Missing) == 0 {
			continue
		}
		lacks := rbac.Describe(r.Missing)
		if more := len(lacks) - maxNamedPermissions; more > 0 {
			lacks = append(lacks[:maxNamedPermissions:maxNamedPermissions], fmt.Sprintf("and %d more", more))
		}
		account := rbac.ServiceAccount(r.Namespace, r.Name)
		e.add(Problem, "rights", &Object{Kind: "ServiceAccount", Namespace: r.Namespace, Name: r.Name},
			"espalier rbac --controllers "+rbac.SubjectFlag(account)+" | kubectl apply -f -", "the controllers lack: %s", strings.Join(lacks, "; "))
	}
	if len(e.Rights) > 0 || e.lacks("rights") {
		e.fine("rights", "the controllers have all permissions that they need in every cluster")
	}
}

func (e *examination) crds() {
	for _, s := range e.Installs {
		o := &Object{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: s.Wanted.GetName()}
		switch s.Action {
		case install.Create:
			e.add(Problem, "crds", o, "start the controllers, which install it; 'espalier run --check' shows what they would do", "it is not installed")
		case install.Update:
			e.add(Warning, "crds", o, "start controllers of this version, which update it", "it is of another version of Espalier")
		case install.KeepNewer:
			e.add(Warning, "crds", o, "finish the upgrade, or use the espalier program of the installed release",
				"it is of a newer release of Espalier than this program")
		case install.Refused:
			e.add(Problem, "crds", o, "espalier takeover --plan", "%s", s.Problem)
		case install.Replace:
			e.add(Warning, "crds", o, "start the controllers, which replace it; 'espalier run --check' shows what they would do",
				"another program installed it, and it lacks %s", strings.Join(append(slices.Clone(s.MissingVersions), s.MissingFields...), ", "))
		case install.KeepForeign:
			if missing := append(slices.Clone(s.MissingVersions), s.MissingFields...); len(missing) > 0 {
				e.add(Warning, "crds", o, "espalier takeover --plan", "another program installed it, and it lacks %s", strings.Join(missing, ", "))
			}
		case install.Unchanged:
		}
	}
	for _, c := range e.CRDs {
		e.condition(c)
	}
	e.fine("crds", "all are established")
}

// condition checks whether the API server serves a kind.
func (e *examination) condition(c *apiextensionsv1.CustomResourceDefinition) {
	o := &Object{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: c.Name}
	for _, condition := range c.Status.Conditions {
		isBad := condition.Status == apiextensionsv1.ConditionFalse && (condition.Type == apiextensionsv1.Established ||
			condition.Type == apiextensionsv1.NamesAccepted)
		isNonStructural := condition.Type == apiextensionsv1.NonStructuralSchema && condition.Status == apiextensionsv1.ConditionTrue
		if isBad || isNonStructural {
			e.add(Problem, "crds", o, "kubectl describe crd "+c.Name, "the API server does not serve it: %s: %s", condition.Reason, condition.Message)
			return
		}
	}
}

func (e *examination) webhooks() {
	for _, w := range e.Webhooks {
		o := w.Object
		effect := "requests continue without it"
		severity := Warning
		if w.Required {
			effect, severity = "requests that need it fail", Problem
		}
		if w.Foreign {
			e.add(Warning, "webhooks", &o, "espalier run --replace-crossplane-webhook, once Crossplane has stopped",
				"Crossplane installed it, and the API server calls Crossplane's webhook before it deletes objects in use")
		}
		if w.Service != "" && w.Ready == 0 {
			namespace, name, _ := strings.Cut(w.Service, "/")
			e.add(severity, "webhooks", &o, fmt.Sprintf("kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s; start the controllers with --webhook-bind-address, or delete the configuration: %s", namespace, name, deleteCommand(o)),
				"its service %s has no ready address: %s", w.Service, effect)
		}
		if len(w.CABundle) == 0 && !w.Foreign {
			e.add(severity, "webhooks", &o, "start the controllers, which set it", "it has no caBundle, so the API server does not trust the webhook: %s", effect)
		}
	}
	e.fine("webhooks", "%s", diag.Counted(len(e.Webhooks), "is configured", "are configured"))
}

func deleteCommand(o Object) string {
	return "kubectl delete " + strings.ToLower(o.Kind) + " " + o.Name
}

// expiresSoon is when a certificate is reported before it expires. The controllers renew theirs earlier.
const expiresSoon = 7 * 24 * time.Hour

func (e *examination) certificates() {
	for _, w := range e.Webhooks {
		if len(w.CABundle) == 0 {
			continue
		}
		o := w.Object
		until, err := validUntil(w.CABundle)
		switch left := until.Sub(e.Now); {
		case err != nil:
			e.add(Problem, "certificates", &o, "start the controllers, which set it", "its caBundle cannot be read: %v", err)
		case left <= 0:
			e.add(Problem, "certificates", &o, "restart the controllers, which issue another one; with webhook.certPath, renew that one",
				"its certificate expired at %s", until.UTC().Format(time.RFC3339))
		case left < expiresSoon:
			e.add(Warning, "certificates", &o, "see that the controllers run: they renew it; with webhook.certPath, renew that one",
				"its certificate expires at %s", until.UTC().Format(time.RFC3339))
		}
	}
	if len(e.Webhooks) > 0 || e.lacks("certificates") {
		e.fine("certificates", "all are valid for more than %d days", expiresSoon/(24*time.Hour))
	}
}

// validUntil is the last time at which any certificate of a bundle is valid.
func validUntil(bundle []byte) (until time.Time, err error) {
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return until, err
		}
		if c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	if until.IsZero() {
		return until, fmt.Errorf("it has no certificate")
	}
	return until, nil
}
