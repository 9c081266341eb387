package awscloud

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// computeReaders are the types of EKS, ECS and CloudFront.
var computeReaders = map[string]reader{
	"AWS::EKS::Cluster": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.rest(ctx, "eks", http.MethodGet, "/clusters/"+url.PathEscape(identifier))
			if err != nil {
				return nil, err
			}
			return answer.get("cluster"), nil
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.rest(ctx, "eks", http.MethodGet, "/clusters")
			if err != nil {
				return nil, err
			}
			return texts(answer.get("clusters")), nil
		},
		covers: []string{"Tags"},
		more: func(_ context.Context, _ caller, identifier string, description *node, out map[string]any) error {
			out["Id"] = identifier
			for property, path := range map[string][]string{
				"CertificateAuthorityData": {"certificateAuthority", "data"}, "OpenIdConnectIssuerUrl": {"identity",
					"oidc", "issuer"},
				"ClusterSecurityGroupId": {"resourcesVpcConfig", "clusterSecurityGroupId"},
			} {
				if v := description.get(path...).text; v != "" {
					out[property] = v
				}
			}
			delete(out, "Tags")
			setTags(out, description.get("tags"))
			return nil
		},
	},
	"AWS::EKS::Nodegroup": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			cluster, name, _ := strings.Cut(identifier, "/")
			answer, err := from.rest(ctx, "eks", http.MethodGet,
				"/clusters/"+url.PathEscape(cluster)+"/node-groups/"+url.PathEscape(name))
			if err != nil {
				return nil, err
			}
			return answer.get("nodegroup"), nil
		},
		aliases: map[string]string{"Arn": "nodegroupArn"}, covers: []string{"Tags", "Labels"},
		predict: func(_ caller, _ string, want map[string]any) (string, bool) {
			name, ok := want["NodegroupName"]
			return text(want["ClusterName"]) + "/" + text(name), ok
		},
		identify: func(physical string, properties map[string]any) string {
			name := lastPart(physical, "/")
			if v, ok := properties["NodegroupName"]; ok {
				name = text(v)
			}
			return text(properties["ClusterName"]) + "/" + name
		},
	},
	"AWS::ECS::Cluster": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.call(ctx, "ecs", "AmazonEC2ContainerServiceV20141113.DescribeClusters",
				map[string]any{"clusters": []string{identifier}, "include": []string{"TAGS"}})
			if err != nil {
				return nil, err
			}
			cluster, err := first(answer.get("clusters"), identifier)
			if err == nil && cluster.get("status").text == "INACTIVE" {
				return nil, missing(identifier)
			}
			return cluster, err
		},
		aliases: map[string]string{"Arn": "clusterArn", "ClusterSettings": "settings"}, covers: []string{"Tags"},
	},
	"AWS::CloudFront::Distribution": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			return from.rest(ctx, "cloudfront", http.MethodGet, "/2020-05-31/distribution/"+url.PathEscape(identifier))
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.rest(ctx, "cloudfront", http.MethodGet, "/2020-05-31/distribution")
			if err != nil {
				return nil, err
			}
			return texts(answer.get("Items"), "Id"), nil
		},
		aliases: map[string]string{"DistributionConfig.IPV6Enabled": "IsIPV6Enabled"}, covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, _ string, description *node, out map[string]any) error {
			tags, err := from.rest(ctx, "cloudfront", http.MethodGet,
				"/2020-05-31/tagging?Resource="+url.QueryEscape(description.get("ARN").text))
			if err != nil {
				return err
			}
			setTags(out, tags.get("Items"))
			return nil
		},
	},
}
