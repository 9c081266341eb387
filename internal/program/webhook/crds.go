package webhook

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
)

// ClusterCRDs reads the CustomResourceDefinitions of a cluster.
type ClusterCRDs struct {
	*kube.Client
	metadata metadata.Getter
}

// NewClusterCRDs returns a reader that connects with the configuration for metadata.
func NewClusterCRDs(c *kube.Client, config *rest.Config) (ClusterCRDs, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return ClusterCRDs{}, err
	}
	return ClusterCRDs{Client: c, metadata: client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))}, nil
}

// ResourceVersions implements CustomResourceDefinitions.
func (c ClusterCRDs) ResourceVersions(ctx context.Context) (map[string]string, error) {
	list, err := c.metadata.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.OwnedLabel + "=true"})
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return out, nil
}
