#!/usr/bin/env bash
# A real Slurm on this machine alone, from Debian's slurmctld, slurmd, slurm-client and munge; as root.
#
#   one_node.sh start FOLDER    # prints the SLURM_CONF to export
#   one_node.sh stop FOLDER
#
# No accounting database: ask for job states by `--slurm-status-command squeue`.
set -euo pipefail

action=$1
folder=$(realpath -m "$2")
conf=$folder/slurm.conf
# Where commands look that run inside a job, whose environment has no SLURM_CONF.
shared=/etc/slurm/slurm.conf

stop() {
  for name in slurmd slurmctld; do
    if [ -f "$folder/$name.pid" ]; then kill "$(cat "$folder/$name.pid")" 2>/dev/null || true; fi
  done
  if [ "$(readlink "$shared")" = "$conf" ]; then rm "$shared"; fi
  if [ -f "$folder/munged.ours" ]; then pkill -x -u munge munged || true; fi
}

if [ "$action" = stop ]; then
  stop
  exit
fi

if [ -e "$shared" ]; then
  echo "$shared exists: this machine has a Slurm of its own" >&2
  exit 1
fi
mkdir -p "$folder/state" "$folder/spool" "$(dirname "$shared")"
host=$(hostname -s)
cat > "$conf" <<EOF
ClusterName=one
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=30
InactiveLimit=0
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
NodeName=$host CPUs=$(nproc) RealMemory=$(($(grep -oP "MemTotal: *\K\d+" /proc/meminfo) / 1024)) State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF

ln -sfn "$conf" "$shared"
export SLURM_CONF=$conf
if ! pgrep -x munged >/dev/null; then
  mkdir -p /run/munge
  chown munge: /run/munge
  runuser -u munge -- munged --force
  touch "$folder/munged.ours"
fi
slurmctld -f "$conf"
slurmd -f "$conf"
for _ in $(seq 60); do
  if [ "$(sinfo --noheader --format=%T 2>/dev/null)" = idle ]; then
    echo "$conf"
    exit
  fi
  sleep 0.5
done
echo "the node did not become idle; the end of its logs:" >&2
tail -n 5 "$folder/slurmctld.log" "$folder/slurmd.log" >&2 || true
stop
exit 1
