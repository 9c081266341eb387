package hook

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/docdb"
	"github.com/aws/aws-sdk-go-v2/service/docdb/types"

	"github.com/espalier-dev/espalier/providers/aws/model"
)

// docDBClusters handles AWS::DocDB::DBCluster. Its calls return while the cluster is being created, changed or deleted;
// the property Status says so.
//
// The API has no token for creations. There is at most one cluster of a name, and its tags, which are set by its
// creation, name its owner. The permissions in its schema include what DocumentDB does with those of the caller: it
// creates its role in the account, uses KMS keys, and creates the secret of a managed password.
type docDBClusters struct{}

type docDBCluster struct {
	AllowMajorVersionUpgrade         *bool
	AvailabilityZones                []string
	BackupRetentionPeriod            *int32
	DBClusterIdentifier              *string
	DBClusterParameterGroupName      *string
	DBSubnetGroupName                *string
	DeletionProtection               *bool
	EnableCloudwatchLogsExports      []string
	EngineVersion                    *string
	KmsKeyId                         *string
	ManageMasterUserPassword         *bool
	MasterUserPassword               *string
	MasterUserSecretKmsKeyId         *string
	MasterUsername                   *string
	NetworkType                      *string
	Port                             *int32
	PreferredBackupWindow            *string
	PreferredMaintenanceWindow       *string
	ServerlessV2ScalingConfiguration *docDBCapacity
	SnapshotIdentifier               *string
	StorageEncrypted                 *bool
	StorageType                      *string
	Tags                             []docDBTag
	VpcSecurityGroupIds              []string
}

type docDBCapacity struct{ MinCapacity, MaxCapacity *float64 }

func (c *docDBCapacity) input() *types.ServerlessV2ScalingConfiguration {
	if c == nil {
		return nil
	}
	return &types.ServerlessV2ScalingConfiguration{MinCapacity: c.MinCapacity, MaxCapacity: c.MaxCapacity}
}

// Identifier returns the name of the cluster.
func (docDBClusters) Identifier(desired map[string]any) string {
	return text(desired, "DBClusterIdentifier")
}

// docDBPages bounds the pages of a list, which have 100 resources.
const docDBPages = 50

func (docDBClusters) List(ctx context.Context, config aws.Config, _ map[string]any) ([]string, error) {
	var out []string
	pages := docdb.NewDescribeDBClustersPaginator(docdb.NewFromConfig(config), &docdb.DescribeDBClustersInput{
		Filters: []types.Filter{{Name: aws.String("engine"), Values: []string{docDBEngine}}},
	})
	for range docDBPages {
		if !pages.HasMorePages() {
			return out, nil
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.DBClusters {
			out = append(out, aws.ToString(c.DBClusterIdentifier))
		}
	}
	return nil, errors.New("there are more clusters than are listed")
}

func (docDBClusters) Create(ctx context.Context, config aws.Config, desired map[string]any, _ []string) (Created, error) {
	c, err := decodeProperties[docDBCluster](desired)
	if err != nil {
		return Created{}, err
	}
	client := docdb.NewFromConfig(config)
	if c.SnapshotIdentifier != nil {
		_, err = client.RestoreDBClusterFromSnapshot(ctx, c.restore())
	} else {
		_, err = client.CreateDBCluster(ctx, c.create())
	}
	if err != nil {
		return Created{}, err
	}
	return Created{Resource: Resource{Identifier: aws.ToString(c.DBClusterIdentifier)}}, nil
}

func (c docDBCluster) create() *docdb.CreateDBClusterInput {
	return &docdb.CreateDBClusterInput{
		Engine: aws.String(docDBEngine), AvailabilityZones: c.AvailabilityZones, BackupRetentionPeriod: c.BackupRetentionPeriod,
		DBClusterIdentifier: c.DBClusterIdentifier, DBClusterParameterGroupName: c.DBClusterParameterGroupName, DBSubnetGroupName: c.DBSubnetGroupName,
		DeletionProtection: c.DeletionProtection, EnableCloudwatchLogsExports: c.EnableCloudwatchLogsExports, EngineVersion: c.EngineVersion,
		KmsKeyId: c.KmsKeyId, ManageMasterUserPassword: c.ManageMasterUserPassword, MasterUserPassword: c.MasterUserPassword,
		MasterUserSecretKmsKeyId: c.MasterUserSecretKmsKeyId, MasterUsername: c.MasterUsername, NetworkType: c.NetworkType, Port: c.Port,
		PreferredBackupWindow: c.PreferredBackupWindow, PreferredMaintenanceWindow: c.PreferredMaintenanceWindow,
		ServerlessV2ScalingConfiguration: c.ServerlessV2ScalingConfiguration.input(), StorageEncrypted: c.StorageEncrypted, StorageType: c.StorageType,
		Tags: docDBTags(c.Tags), VpcSecurityGroupIds: c.VpcSecurityGroupIds,
	}
}

// The snapshot determines the user and the password. What it cannot set is a difference at the next read, and then
// changed: a password because no tag says that it was sent.
func (c docDBCluster) restore() *docdb.RestoreDBClusterFromSnapshotInput {
	tags := slices.DeleteFunc(slices.Clone(c.Tags), func(tag docDBTag) bool { return tag.Key == model.TagSent })
	return &docdb.RestoreDBClusterFromSnapshotInput{
		Engine: aws.String(docDBEngine), SnapshotIdentifier: c.SnapshotIdentifier, AvailabilityZones: c.AvailabilityZones,
		DBClusterIdentifier: c.DBClusterIdentifier, DBClusterParameterGroupName: c.DBClusterParameterGroupName, DBSubnetGroupName: c.DBSubnetGroupName,
		DeletionProtection: c.DeletionProtection, EnableCloudwatchLogsExports: c.EnableCloudwatchLogsExports, EngineVersion: c.EngineVersion,
		KmsKeyId: c.KmsKeyId, NetworkType: c.NetworkType, Port: c.Port, ServerlessV2ScalingConfiguration: c.ServerlessV2ScalingConfiguration.input(),
		StorageType: c.StorageType, Tags: docDBTags(tags), VpcSecurityGroupIds: c.VpcSecurityGroupIds,
	}
}

// It is nil if there is none.
func (docDBClusters) find(ctx context.Context, client *docdb.Client, identifier string) (*types.DBCluster, error) {
	found, err := client.DescribeDBClusters(ctx, &docdb.DescribeDBClustersInput{DBClusterIdentifier: &identifier})
	if hasCode(err, "DBClusterNotFoundFault") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range found.DBClusters {
		if aws.ToString(c.Engine) == docDBEngine {
			return &c, nil
		}
	}
	return nil, nil
}

func (h docDBClusters) Read(ctx context.Context, config aws.Config, identifier string) (*Resource, error) {
	client := docdb.NewFromConfig(config)
	c, err := h.find(ctx, client, identifier)
	if err != nil || c == nil {
		return nil, err
	}
	properties := docDBClusterProperties(*c)
	if properties["Tags"], err = readDocDBTags(ctx, client, c.DBClusterArn); hasCode(err, "DBClusterNotFoundFault") {
		return nil, nil // it was deleted in between
	}
	return &Resource{Identifier: identifier, Properties: properties, Busy: isDocDBBusy(c.Status)}, err
}

func docDBClusterProperties(c types.DBCluster) map[string]any {
	o := object{"ManageMasterUserPassword": c.MasterUserSecret != nil}
	o.texts("AvailabilityZones", c.AvailabilityZones)
	o.number("BackupRetentionPeriod", c.BackupRetentionPeriod)
	o.text("ClusterResourceId", c.DbClusterResourceId)
	o.text("DBClusterArn", c.DBClusterArn)
	o.text("DBClusterIdentifier", c.DBClusterIdentifier)
	o.text("DBClusterParameterGroupName", c.DBClusterParameterGroup)
	o.text("DBSubnetGroupName", c.DBSubnetGroup)
	o.flag("DeletionProtection", c.DeletionProtection)
	o.texts("EnableCloudwatchLogsExports", c.EnabledCloudwatchLogsExports)
	o.text("Endpoint", c.Endpoint)
	o.text("EngineVersion", c.EngineVersion)
	o.text("KmsKeyId", c.KmsKeyId)
	o.text("MasterUsername", c.MasterUsername)
	o.text("NetworkType", c.NetworkType)
	o.number("Port", c.Port)
	o.text("PreferredBackupWindow", c.PreferredBackupWindow)
	o.text("PreferredMaintenanceWindow", c.PreferredMaintenanceWindow)
	o.text("ReadEndpoint", c.ReaderEndpoint)
	o.text("Status", c.Status)
	o.flag("StorageEncrypted", c.StorageEncrypted)
	o.text("StorageType", c.StorageType)
	if s := c.MasterUserSecret; s != nil {
		o.text("MasterUserSecretArn", s.SecretArn)
		o.text("MasterUserSecretKmsKeyId", s.KmsKeyId)
	}
	if s := c.ServerlessV2ScalingConfiguration; s != nil && s.MinCapacity != nil && s.MaxCapacity != nil {
		o["ServerlessV2ScalingConfiguration"] = map[string]any{"MinCapacity": *s.MinCapacity, "MaxCapacity": *s.MaxCapacity}
	}
	o.texts("VpcSecurityGroupIds", securityGroupsOf(c))
	return o
}

func securityGroupsOf(c types.DBCluster) []string {
	var out []string
	for _, g := range c.VpcSecurityGroups {
		out = append(out, aws.ToString(g.VpcSecurityGroupId))
	}
	return out
}

func (h docDBClusters) Update(ctx context.Context, config aws.Config, identifier string, desired map[string]any) error {
	wanted, err := decodeProperties[docDBCluster](desired)
	if err != nil {
		return err
	}
	client := docdb.NewFromConfig(config)
	present, err := h.find(ctx, client, identifier)
	switch {
	case err != nil:
		return err
	case present == nil:
		return errGone("the cluster " + identifier)
	}
	if change := wanted.modify(*present); change != nil {
		if _, err := client.ModifyDBCluster(ctx, change); err != nil {
			return err
		}
	}
	// The tags are last: one of them says which password was sent.
	if _, isSet := desired["Tags"]; !isSet {
		return nil
	}
	return writeDocDBTags(ctx, client, present.DBClusterArn, wanted.Tags)
}

// It is nil for no change. The password is always sent: nothing shows the present one.
func (c docDBCluster) modify(present types.DBCluster) *docdb.ModifyDBClusterInput {
	isManaged, secretKey := present.MasterUserSecret != nil, (*string)(nil)
	if isManaged {
		secretKey = present.MasterUserSecret.KmsKeyId
	}
	m := docdb.ModifyDBClusterInput{
		BackupRetentionPeriod:       changed(c.BackupRetentionPeriod, present.BackupRetentionPeriod),
		DBClusterParameterGroupName: changedText(c.DBClusterParameterGroupName, present.DBClusterParameterGroup),
		DeletionProtection:          changed(c.DeletionProtection, present.DeletionProtection),
		EngineVersion:               changedVersion(c.EngineVersion, present.EngineVersion),
		ManageMasterUserPassword:    changed(c.ManageMasterUserPassword, &isManaged),
		MasterUserPassword:          c.MasterUserPassword,
		NetworkType:                 changedText(c.NetworkType, present.NetworkType),
		Port:                        changed(c.Port, present.Port),
		PreferredBackupWindow:       changedText(c.PreferredBackupWindow, present.PreferredBackupWindow),
		PreferredMaintenanceWindow:  changedText(c.PreferredMaintenanceWindow, present.PreferredMaintenanceWindow),
		StorageType:                 changedText(c.StorageType, aws.String(storageType(present))),
	}
	if key := c.MasterUserSecretKmsKeyId; key != nil && !strings.HasSuffix(aws.ToString(secretKey), *key) {
		m.MasterUserSecretKmsKeyId = key
	}
	if c.VpcSecurityGroupIds != nil && !sameSet(c.VpcSecurityGroupIds, securityGroupsOf(present)) {
		m.VpcSecurityGroupIds = c.VpcSecurityGroupIds
	}
	if c.EnableCloudwatchLogsExports != nil && !sameSet(c.EnableCloudwatchLogsExports, present.EnabledCloudwatchLogsExports) {
		m.CloudwatchLogsExportConfiguration = &types.CloudwatchLogsExportConfiguration{
			EnableLogTypes:  without(c.EnableCloudwatchLogsExports, present.EnabledCloudwatchLogsExports),
			DisableLogTypes: without(present.EnabledCloudwatchLogsExports, c.EnableCloudwatchLogsExports),
		}
	}
	if s, is := c.ServerlessV2ScalingConfiguration, present.ServerlessV2ScalingConfiguration; s != nil &&
		(is == nil || changed(s.MinCapacity, is.MinCapacity) != nil || changed(s.MaxCapacity, is.MaxCapacity) != nil) {
		m.ServerlessV2ScalingConfiguration = s.input()
	}
	if isZero(m) {
		return nil
	}
	if m.EngineVersion != nil {
		m.AllowMajorVersionUpgrade = c.AllowMajorVersionUpgrade
	}
	m.DBClusterIdentifier, m.ApplyImmediately = present.DBClusterIdentifier, aws.Bool(true)
	return &m
}

// AWS does not return the standard type.
func storageType(c types.DBCluster) string {
	if c.StorageType == nil {
		return "standard"
	}
	return *c.StorageType
}

// It is nil if the present version has it: 5.0.0 is a 5.0.
func changedVersion(wanted, present *string) *string {
	if wanted == nil || strings.HasPrefix(aws.ToString(present)+".", *wanted+".") {
		return nil
	}
	return wanted
}

func sameSet(a, b []string) bool { return len(without(a, b)) == 0 && len(without(b, a)) == 0 }

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(item string) bool { return slices.Contains(b, item) })
}

// Delete deletes a cluster without a snapshot: one that an annotation asks for is taken before.
func (docDBClusters) Delete(ctx context.Context, config aws.Config, identifier string) error {
	_, err := docdb.NewFromConfig(config).DeleteDBCluster(ctx, &docdb.DeleteDBClusterInput{DBClusterIdentifier: &identifier, SkipFinalSnapshot: aws.Bool(true)})
	if hasCode(err, "DBClusterNotFoundFault") {
		return nil
	}
	return err
}

// It is taken before the deletion.
func snapshotDocDBCluster(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	name, err := checkSnapshotName(t)
	if name == "" || err != nil {
		return "", err
	}
	client := docdb.NewFromConfig(config)
	found, err := client.DescribeDBClusterSnapshots(ctx, &docdb.DescribeDBClusterSnapshotsInput{DBClusterSnapshotIdentifier: &name})
	switch {
	case hasCode(err, "DBClusterSnapshotNotFoundFault") || err == nil && len(found.DBClusterSnapshots) == 0:
		_, err = client.CreateDBClusterSnapshot(ctx, &docdb.CreateDBClusterSnapshotInput{DBClusterIdentifier: &t.Identifier, DBClusterSnapshotIdentifier: &name})
		if hasCode(err, "DBClusterSnapshotAlreadyExistsFault") {
			err = nil
		}
		return "the DB cluster snapshot " + name + " is being created", err
	case err != nil:
		return "", err
	}
	one := found.DBClusterSnapshots[0]
	return snapshot{"DB cluster snapshot", name, aws.ToString(one.DBClusterIdentifier), aws.ToString(one.Status), one.SnapshotCreateTime}.step(t)
}
