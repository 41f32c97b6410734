#!/bin/bash
# On a machine with a GPU: measure and count what lies beside this file (plan.json, cubins, data, read.cubin, measure.py) into $OUT.
D=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv > "$OUT/gpu.txt"
for i in 1 2 3 4 5 6 7 8; do
  timeout 100 python3 "$D/measure.py" "$D" "$OUT" >> "$OUT/times.log" 2>&1 && break
done
N=$(command -v ncu || ls -d /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2> /dev/null | tail -1)
M=l1tex__m_xbar2l1tex_read_bytes.sum,dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum,lts__t_sectors_srcunit_tex_op_read.sum,sm__cycles_elapsed.max
for i in 1 2 3 4 5 6 7 8; do
  timeout 150 "$N" --csv --page raw --print-units base --clock-control none --replay-mode kernel --cache-control all --profile-from-start off \
    --target-processes application-only --metrics $M --log-file "$OUT/ncu-$i.csv" python3 "$D/measure.py" "$D" "$OUT" --count >> "$OUT/ncu.log" 2>&1 && break
done
wc -l "$OUT"/times.ndjson "$OUT"/ncu-*.csv
