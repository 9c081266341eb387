package security

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// installation is a program that leads and has no controllers: the tests' own controllers serve
// the cluster.
type installation struct{ *cluster.Cluster }

func (i installation) Run(ctx context.Context) error {
	return i.Cluster.Run(ctx, func(context.Context) error { return nil })
}

// TestTwoInstallationsHaveOneLeader starts a second program whose lease is in another namespace.
func TestTwoInstallationsHaveOneLeader(t *testing.T) {
	s := suite.New(t)
	config := s.Config
	run := func(ctx context.Context, name, namespace string, ready chan<- struct{}) error {
		m, err := manager.New(manager.Options{
			Name: name, Version: "test", Config: config, HealthAddress: "0", MetricsAddress: "0", Ready: ready,
			LeaderElection: true, LeaderElectionNamespace: namespace,
		}, func(env manager.Environment) (manager.Controllers, error) {
			k, err := cluster.New(cluster.Options{Config: env.Config, Workers: 1, Lease: env.Lease})
			return installation{k}, err
		})
		if err != nil {
			return err
		}
		return m.Run(ctx)
	}
	name := strings.ReplaceAll(testkit.Group(t), ".", "-")
	first, second := testkit.Namespace(t, config), testkit.Namespace(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, name, first, ready) }()
	<-ready
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	err := run(t.Context(), name, second, nil)
	for _, want := range []string{"in namespace " + first, "--leader-election-namespace " + first, "kubectl annotate crd bindings.espalier.dev lease.espalier.dev/" + manager.LeaseName(name) + "-"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	if got := s.Get(t, crd, "", "bindings.espalier.dev").GetAnnotations()["lease.espalier.dev/"+manager.LeaseName(name)]; got != first {
		t.Errorf("the recorded namespace is %s", got)
	}
}
