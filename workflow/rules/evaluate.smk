rule evaluate:
    input:
        layout.FINGERPRINT,
        CELL.best,
        CELL.last,
    output:
        CELL.evaluated,
    log:
        CELL.log("evaluate"),
    benchmark:
        CELL.usage("evaluate")
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=lambda cell, attempt: 2000 * attempt,
        runtime=lambda cell, attempt: 60 * attempt,
    params:
        settings=lambda cell: PARAMS.evaluate_settings(cell_of(cell)),
    shell:
        "mujax-pipe cell evaluate {wildcards.algo} {wildcards.env} {wildcards.seed} > {log} 2>&1"
