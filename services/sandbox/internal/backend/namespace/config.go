package namespace

const (
	// Name selects the driver.
	Name = "namespace"
	// InitArg0 is the name under which a binary is started again as the init process of a sandbox.
	InitArg0 = "gantry-sandbox-init"

	// userID and groupID are those of commands, inside.
	userID, groupID = 1000, 1000
	// homeDir and workspaceDir are where commands find them.
	homeDir, workspaceDir = "/home/agent", "/workspace"

	// firstUID is the first host uid of the first sandbox, and idsPerSandbox how many each one has. The range ends below 2^31, which some tools
	// take for the end of user ids, and lies above what distributions give to people and containers.
	firstUID      = 0x7000_0000
	idsPerSandbox = 0x1_0000
	maxSlots      = 4096
)

// Config holds the settings of the driver.
type Config struct {
	// Dir is where instances keep their state: sockets, records, logs.
	Dir string
	// RootFS is a directory whose usr/ and etc/ commands see. Empty: those of the host.
	RootFS string
	// CgroupParent is the control group below which sandboxes are made, relative to that of this process. Empty: "gantry-sandbox".
	CgroupParent string
}

// launch is what the driver tells the part of it that runs in the supervisor.
type launch struct {
	RootFS string `json:"rootfs,omitempty"`
	// Groups is where the control groups of the instance are. It is kept, not found again: a later service may run in another group.
	Groups hierarchy `json:"groups"`
	// Slot selects the range of user ids. Negative: the user of this process alone (no privileges).
	Slot int `json:"slot"`
}

// base is the host uid of user 0 inside.
func (l launch) base() int { return firstUID + l.Slot*idsPerSandbox }
