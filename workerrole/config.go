package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/logging"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// config is what the environment variables say. docs/configuration.md describes each
// with its unit, default and range.
type config struct {
	Storage    azstore.Config
	Queues     []azq.Spec // with the visibility timeouts of CUTROOM_VISIBILITY
	Name       string     // of this worker, unique among all
	Instance   string     // returned by the admin listener, so that the program that started the worker recognises it
	AdminAddr  string
	AdminToken string         // needed to read more than health, and to listen off loopback
	Pools      map[string]int // slots by pool

	FFmpeg, FFprobe string // paths, or names to be found in PATH
	Sandbox         sandbox.Mode
	Scratch         string // directory for temporary files
	ScratchFree     int64  // bytes that must be free there when a step begins

	ReconcileEvery time.Duration
	ReconcileGrace time.Duration
	JanitorEvery   time.Duration
	JanitorGrace   time.Duration
	ClipLife       time.Duration
	AuditLife      time.Duration
	AbandonAfter   time.Duration
	PurgeLinger    time.Duration
	DrainTimeout   time.Duration

	FirstRetry, MaxTroublePause time.Duration // of azq.Options; set by tests only
}

const defaultAdminAddr = "127.0.0.1:9091"

// loadConfig reads the environment. One error lists every bad variable.
func loadConfig(getenv func(string) string) (config, error) {
	env := settings.Reader{Getenv: getenv}
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	cfg := config{
		Name:        env.Text("WORKERROLE_NAME", fmt.Sprintf("%s-%d", host, os.Getpid())),
		Instance:    getenv("CUTROOM_INSTANCE"),
		AdminAddr:   env.Text("WORKERROLE_ADMIN_ADDR", defaultAdminAddr),
		AdminToken:  getenv("WORKERROLE_ADMIN_TOKEN"),
		FFmpeg:      env.Text("FFMPEG_PATH", "ffmpeg"),
		FFprobe:     env.Text("FFPROBE_PATH", "ffprobe"),
		Scratch:     env.Text("WORKERROLE_SCRATCH", os.TempDir()),
		ScratchFree: int64(env.Int("WORKERROLE_SCRATCH_FREE", 256, 0, 1<<30)) << 20,

		ReconcileEvery: env.Duration("CUTROOM_RECONCILE_INTERVAL", 10*time.Second, 100*time.Millisecond, 0),
		ReconcileGrace: env.Duration("CUTROOM_RECONCILE_GRACE", 10*time.Second, 100*time.Millisecond, 0),
		JanitorEvery:   env.Duration("CUTROOM_JANITOR_INTERVAL", time.Hour, 100*time.Millisecond, 0),
		JanitorGrace:   env.Duration("CUTROOM_JANITOR_GRACE", 24*time.Hour, 0, 0),
		ClipLife:       env.Duration("CUTROOM_CLIP_LIFE", 7*24*time.Hour, 0, 0),
		AuditLife:      env.Duration("CUTROOM_AUDIT_LIFE", 90*24*time.Hour, 24*time.Hour, 0),
		AbandonAfter:   env.Duration("CUTROOM_ABANDON_AFTER", 7*24*time.Hour, time.Second, 0),
		PurgeLinger:    env.Duration("CUTROOM_PURGE_LINGER", 10*time.Second, time.Second, 0),
		DrainTimeout:   env.Duration("WORKERROLE_DRAIN_TIMEOUT", 25*time.Second, time.Second, 0),
	}
	_, log := logging.New(io.Discard, getenv) // main has it
	var storage, mode error
	cfg.Storage, storage = azstore.ConfigFromEnv(getenv, "CUTROOM")
	cfg.Queues = settings.Parse(&env, "CUTROOM_VISIBILITY", workflow.WithVisibility)
	cfg.Pools = settings.Parse(&env, "WORKERROLE_POOLS", parsePools)
	cfg.Sandbox, mode = sandbox.ParseMode(env.Text("WORKERROLE_SANDBOX", string(sandbox.Try)))
	env.Bad("WORKERROLE_SANDBOX", mode)
	env.Bad("WORKERROLE_ADMIN_ADDR", settings.CheckListener(cfg.AdminAddr, cfg.AdminToken, "WORKERROLE_ADMIN_TOKEN"))
	return cfg, errors.Join(env.Err(), log, storage)
}

// LogValue is the configuration in force, without secrets, for the log.
func (c config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Any("storage", c.Storage), slog.String("visibility", workflow.Visibilities(c.Queues)),
		slog.String("admin", c.AdminAddr), slog.Bool("token", c.AdminToken != ""), slog.Any("pools", c.Pools),
		slog.String("ffmpeg", c.FFmpeg), slog.String("ffprobe", c.FFprobe), slog.String("scratch", c.Scratch), slog.Int64("scratchFree", c.ScratchFree), slog.String("sandbox", string(c.Sandbox)),
		slog.Duration("reconcileInterval", c.ReconcileEvery), slog.Duration("reconcileGrace", c.ReconcileGrace),
		slog.Duration("janitorInterval", c.JanitorEvery), slog.Duration("janitorGrace", c.JanitorGrace),
		slog.Duration("clipLife", c.ClipLife),
		slog.Duration("auditLife", c.AuditLife),
		slog.Duration("abandonAfter", c.AbandonAfter),
		slog.Duration("purgeLinger", c.PurgeLinger), slog.Duration("drainTimeout", c.DrainTimeout))
}

// parsePools reads "light=4,heavy=2". A pool that is not named has its default. Zero
// slots turn a pool off, for a worker that does one kind of work (Q5). azq.Client.Check
// refuses a queue whose pool is missing.
func parsePools(s string) (map[string]int, error) {
	pools := workflow.Pools()
	pools[workflow.Heavy] = min(pools[workflow.Heavy], memorySlots(memlimit.FromCgroup()))
	if s == "" {
		return pools, nil
	}
	var problems []error
	for part := range strings.SplitSeq(s, ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(count)
		if _, known := pools[name]; !known || err != nil || n < 0 || n > 256 {
			problems = append(problems, fmt.Errorf("%q is not a queue's pool (light=N, heavy=N) with N from 0 to 256", part))
			continue
		}
		pools[name] = n
	}
	return pools, errors.Join(problems...)
}

// What a heavy slot needs at its worst with a source of up to 1920 × 1080, and what the
// worker itself and its light slots need, in bytes. A source of 4096 × 2160 may need
// more; an encoder that is killed for memory is tried again (decision 0024).
const (
	heavyMemory = 768 << 20
	otherMemory = 512 << 20
)

// memorySlots is how many heavy slots fit the container's memory limit: at least one. A
// limit that cannot be read is none.
func memorySlots(limit uint64, err error) int {
	if err != nil || limit == 0 {
		return math.MaxInt
	}
	return max(1, int(min((max(limit, otherMemory)-otherMemory)/heavyMemory, math.MaxInt32)))
}
