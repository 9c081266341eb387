package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// run starts the program of a revision once its objects are installed, and lets it take over when it is ready. One that runs
// already keeps running, whatever has become of the objects. The note is for the user.
func (r *Revisions) run(ctx context.Context, s *revisionState, installed bool) (note string, err error) {
	if !installed && s.revision.Status.Endpoint == "" {
		return "", &problem{text: "it is started when its objects are installed", waits: true}
	}
	if image := stringAt(map[string]any{"status": s.status}, "status", "resolvedImage"); image != "" {
		s.revision.Status.ResolvedImage = image
	}
	p, err := r.program(s)
	if err != nil {
		return "", err
	}
	account := rbac.ServiceAccount(r.Namespace, p.AccountName())
	if note, err = r.grant(ctx, s, &account); err != nil {
		return "", err
	}
	state, err := r.Runtime.Start(ctx, s.lease, p)
	if err != nil {
		return "", err
	}
	s.after = state.After
	set(s.status, "tlsServerSecretName", state.ServerSecret)
	set(s.status, "tlsClientSecretName", state.ClientSecret)
	if state.Ready && !state.Serves {
		if err := r.Runtime.TakeOver(ctx, s.lease, p); err != nil {
			return "", err
		}
		state.Serves = true
	}
	if state.Serves && state.Ready {
		s.status["endpoint"] = state.Endpoint
	}
	if !state.Ready {
		return "", &problem{text: state.Message, waits: true}
	}
	return note, nil
}

// program describes the program of a revision.
func (r *Revisions) program(s *revisionState) (p runtime.Program, err error) {
	spec := s.revision.Spec
	p = runtime.Program{
		Kind: r.Package.Kind, Package: s.pkg.GetName(), PackageUID: s.pkg.GetUID(), Revision: s.key.Name, RevisionUID: s.raw.GetUID(),
		Namespace: r.Namespace, Image: s.revision.Status.ResolvedImage, PullPolicy: corev1.PullIfNotPresent,
		ServerSecret: s.pkg.GetName() + "-tls-server",
	}
	if spec.PackagePullPolicy != nil {
		p.PullPolicy = *spec.PackagePullPolicy
	}
	if spec.TLSServerSecretName != nil && *spec.TLSServerSecretName != "" {
		p.ServerSecret = *spec.TLSServerSecretName
	}
	if r.Package.Kind == v1.ProviderKind {
		p.ClientSecret = s.pkg.GetName() + "-tls-client"
	}
	if spec.TLSClientSecretName != nil && *spec.TLSClientSecretName != "" {
		p.ClientSecret = *spec.TLSClientSecretName
	}
	source, known, err := r.readSource(s.lease, spec.Image, spec.PackageSettings, s.key)
	if err != nil || !known {
		source.Runtime = nil // the pods have the same credentials as before
	}
	p.PullSecrets = source.secrets
	if p.Idle, err = r.awaitsActivation(s); err != nil {
		return p, err
	}
	s.idle = p.Idle
	p.Config, err = r.runtimeConfig(s, source.Runtime)
	return p, err
}

// runtimeConfig is what an ImageConfig names, or else the package. Without any, and without an object default, the defaults apply.
func (r *Revisions) runtimeConfig(s *revisionState, named *v1.RuntimeConfigReference) (c v1beta1.DeploymentRuntimeConfigSpec, err error) {
	if named == nil {
		named = s.revision.Spec.RuntimeConfigRef
	}
	name := "default"
	if named != nil {
		name = named.Name
	}
	if named != nil && named.Kind != nil && *named.Kind != v1beta1.DeploymentRuntimeConfigKind {
		return c, &problem{text: fmt.Sprintf("runtimeConfigRef names the kind %s; only %s is known", *named.Kind, v1beta1.DeploymentRuntimeConfigKind)}
	}
	o, state := s.lease.Object(runtimeConfigKind, "", name)
	switch {
	case state.Phase == watch.Unavailable:
		return c, &problem{text: "cannot read DeploymentRuntimeConfigs: " + state.Message, waits: true}
	case state.Phase != watch.Synced:
		return c, errNotRead
	case o == nil && name == "default":
		return c, nil
	case o == nil:
		return c, &problem{text: "there is no DeploymentRuntimeConfig " + name}
	}
	config, err := decode[v1beta1.DeploymentRuntimeConfig](o)
	if err != nil {
		return c, &problem{text: err.Error()}
	}
	return config.Spec, nil
}
