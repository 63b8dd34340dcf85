rule evaluate:
    input:
        layout.FINGERPRINT,
        CELL.best,
    output:
        CELL.evaluated,
    log:
        CELL.log("evaluate"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=lambda cell: PARAMS.evaluate_settings(
            PARAMS.cell(cell.algo, cell.env, int(cell.seed))
        ),
    shell:
        "mujax-pipe cell evaluate {wildcards.algo} {wildcards.env} {wildcards.seed} > {log} 2>&1"
