package testkit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { Main(m) }

func TestServerCollectsWhatLostItsOwner(t *testing.T) {
	config := Server(t)
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(Namespace(t, config))
	create := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		t.Helper()
		made, err := maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	owner := create("owner")
	create("owned", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})

	events, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=owned"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range events.ResultChan() {
		if event.Type == watch.Deleted {
			return
		}
	}
	t.Error("the watch ended before the owned object was deleted")
}

func TestServerIsTheSameForAllTests(t *testing.T) {
	if one, two := Server(t).Host, Server(t).Host; one != two {
		t.Errorf("%s and %s", one, two)
	}
}

func TestNamespacesAndGroupsAreUnique(t *testing.T) {
	config := Server(t)
	if one, two := Namespace(t, config), Namespace(t, config); one == two {
		t.Errorf("namespace %s twice", one)
	}
	if one, two := Group(t), Group(t); one == two {
		t.Errorf("group %s twice", one)
	}
}

func TestNamespaceIsDeletedWithItsTest(t *testing.T) {
	config := Server(t)
	var name string
	t.Run("test", func(t *testing.T) { name = namespace(t, config, false) })
	got, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.DeletionTimestamp == nil {
		t.Error("it is not being deleted")
	}
}
